"""The embedded model as a server on loopback, which speaks three wire dialects, and the embedded model in this process.

Where it is not installed its tests are skipped; in CI they fail. It is small and often wrong, so tests look at what is
valid, never at what is right.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from assentry.errors import UsageError
from assentry.models.embedded_parts import check_installed, weights_file

TEMPLATE = """
{%- if messages[0]['role'] == 'system' or tools %}<|im_start|>system
{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] }}
{% endif %}{% for tool in tools or [] %}{{ tool['function'] | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m['role'] == 'user' or (m['role'] == 'assistant' and m['content']) %}<|im_start|>{{ m['role'] }}
{{ m['content'] }}<|im_end|>
{% elif m['role'] == 'assistant' and m['tool_calls'] %}<|im_start|>assistant
{{ m['tool_calls'][0]['function'] | tojson }}<|im_end|>
{% elif m['role'] == 'tool' %}<|im_start|>user
{{ m['content'] }}<|im_end|>
{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@pytest.fixture(scope="session")
def embedded() -> None:
    """Skip the test if the embedded model is not installed; fail in CI."""
    try:
        check_installed()
    except UsageError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def embedded_server(embedded: None) -> Iterator[str]:
    """The address of a server for all tests."""
    from xllamacpp import CommonParams, Server

    settings: Any = CommonParams()
    settings.model.path = str(weights_file())
    settings.hostname, settings.port = "127.0.0.1", 0
    settings.n_ctx, settings.n_parallel = 2048, 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.use_jinja, settings.chat_template = True, TEMPLATE
    settings.sampling.temp, settings.sampling.penalty_repeat = 0.0, 1.1  # the same words every time
    settings.cache_ram_mib, settings.verbosity = 64, -1
    server = Server(settings)
    yield server.listening_address
    del server
