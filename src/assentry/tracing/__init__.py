"""Tracing: the settings, the exporter of spans, and their attributes. The spans are made in `runtime.span_observer`.

OpenTelemetry is loaded only when a run is traced.
"""
