"""The spans of a run, made with OpenTelemetry.

Only this package imports OpenTelemetry, and its modules are loaded only when a run is traced.
"""
