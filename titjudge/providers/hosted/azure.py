"""Azure OpenAI: OpenAI's chat completions behind a deployment, through OpenAI's SDK.

The name is the deployment's: `azure/DEPLOYMENT`. It is authorised by the token in AZURE_OPENAI_AD_TOKEN, else
by the key in AZURE_OPENAI_API_KEY, else by Entra ID as azure-identity finds it (a managed identity, `az login`, a service
principal).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from titjudge.core.errors import ConfigError, MissingExtra
from titjudge.core.types import ProviderSettings
from titjudge.providers import model_families
from titjudge.providers.hosted import http
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.hosted.sdk import AzureSdk

API_VERSION = "2024-10-21"  # the last that is no preview; learn.microsoft.com/azure/ai-foundry/openai/reference
_TOKEN = "AZURE_OPENAI_AD_TOKEN"
_SCOPE = "https://cognitiveservices.azure.com/.default"


class Azure(OpenAI):
    """One deployment at Azure OpenAI.

    `base_url` or AZURE_OPENAI_ENDPOINT; the version of the API from the option `api_version` or OPENAI_API_VERSION.
    The option `model` says which model the deployment has, where its name does not: parameters and prices go by it.
    """

    name = "azure"
    default_base = ""
    base_env = "AZURE_OPENAI_ENDPOINT"
    key_envs = ("AZURE_OPENAI_API_KEY",)
    option_names = OpenAI.option_names | {"api_version", "model"}

    def __init__(self, settings: ProviderSettings, transport: http.Transport | None = None) -> None:
        self.listed_as = str(settings.options.get("model") or "")
        super().__init__(settings, transport)

    def headers_for(self, endpoint: http.Endpoint) -> dict[str, str]:
        """Make no headers, as the SDK authorises requests; a malformed key is refused now."""
        if os.environ.get(self._key_env(), "").strip() or self.settings.api_key_env:
            super().headers_for(endpoint)
        return {}

    def _authorisation(self, endpoint: http.Endpoint, key: str) -> dict[str, str]:
        return {}

    def _family(self) -> model_families.Family:
        return model_families.family("openai", self.listed_as or self.model)

    def _address(self) -> str:
        address = super()._address()
        if not address:
            raise ConfigError("Azure OpenAI has no common address: set AZURE_OPENAI_ENDPOINT, or --base-url")
        return address

    def _calls_tools(self) -> bool:
        return self.family.tools

    def _through_sdk(self) -> bool:
        return True

    def _sdk(self) -> http.Transport:
        version = str(self.settings.options.get("api_version") or os.environ.get("OPENAI_API_VERSION") or API_VERSION)
        return AzureSdk(self.model, version, self._credential)

    def _credential(self) -> Mapping[str, Any]:
        if os.environ.get(_TOKEN):  # the SDK takes it before any key
            return {}
        if self.key:
            return {"api_key": self.key}
        try:
            from azure.identity.aio import DefaultAzureCredential, get_bearer_token_provider
        except ImportError as error:
            raise MissingExtra("azure-identity", "azure", "Azure OpenAI without AZURE_OPENAI_API_KEY") from error
        return {"azure_ad_token_provider": get_bearer_token_provider(DefaultAzureCredential(), _SCOPE)}
