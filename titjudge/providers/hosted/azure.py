"""Azure OpenAI: OpenAI's chat completions behind a deployment, through OpenAI's SDK.

The name is the deployment's: `azure/DEPLOYMENT`. Credentials are tried in this order: the token in AZURE_OPENAI_AD_TOKEN,
the key in AZURE_OPENAI_API_KEY, then Entra ID through azure-identity (a managed identity, `az login`, a service
principal).
"""

from __future__ import annotations

import logging
import os
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlunsplit

from titjudge.core.errors import ConfigError, MissingExtra
from titjudge.core.redaction import url_parts
from titjudge.core.types import ProviderSettings, Values
from titjudge.providers import vendors
from titjudge.providers.hosted import http
from titjudge.providers.hosted.openai import OpenAI
from titjudge.providers.hosted.sdk import AzureSdk

API_VERSION = "2024-10-21"  # the last one that is not a preview; learn.microsoft.com/azure/ai-foundry/openai/reference
_TOKEN, _KEY = "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_API_KEY"
_SCOPE = "https://cognitiveservices.azure.com/.default"


class Azure(OpenAI):
    """One deployment at Azure OpenAI.

    `base_url` or AZURE_OPENAI_ENDPOINT, in any form that Azure's portal gives: the endpoint, the base of the v1 API
    (`.../openai/v1/`), or the target URI of a deployment. The version of the API comes from the option `api_version`,
    from the address, or from OPENAI_API_VERSION; the v1 API needs none. The option `model` gives the model of the
    deployment, if its name does not: parameters and prices depend on it.
    """

    name = "azure"
    default_base = ""
    base_env = "AZURE_OPENAI_ENDPOINT"
    key_envs = ()  # Entra ID goes without
    default_model = ""
    batch_service = ""
    option_names = OpenAI.option_names | {"api_version", "model"}

    def __init__(self, settings: ProviderSettings, transport: http.Transport | None = None) -> None:
        self.listed_as = str(settings.options.get("model") or "")
        self._version = str(settings.options.get("api_version") or "")
        self._credentials: list[Any] = []  # of Entra ID, to be closed
        super().__init__(settings, transport)

    @classmethod
    def setup(cls) -> list[tuple[str, str, str]]:
        endpoint = os.environ.get(cls.base_env)
        by = next((name for name in (_TOKEN, _KEY) if os.environ.get(name)), "Entra ID")
        facts = f"{endpoint}, by {by}" if endpoint else f"set {cls.base_env} for azure/DEPLOYMENT"
        return [(cls.name, "ok" if endpoint else "no address", facts)]

    def _key_env(self) -> str:
        return self.settings.api_key_env or _KEY

    def headers_for(self, endpoint: http.Endpoint) -> dict[str, str]:
        """Make no headers, as the SDK authorises requests; a malformed key is refused now."""
        if os.environ.get(self._key_env(), "").strip() or self.settings.api_key_env:
            super().headers_for(endpoint)
        return {}

    def authorisation(self, endpoint: http.Endpoint, key: str) -> dict[str, str]:
        return {}

    def _family(self) -> vendors.Family:
        return vendors.family("openai", self.listed_as or self.model)

    def _address(self) -> str:
        address = super()._address()
        if not address:
            raise ConfigError("Azure OpenAI requires an address. Set AZURE_OPENAI_ENDPOINT, or add --base-url")
        return ",".join(self._endpoint(part) for part in address.split(",") if part.strip())

    def _endpoint(self, address: str) -> str:
        """Return the endpoint, or the base of the v1 API, of an address as the portal gives it.

        Raises:
            ConfigError: It is the address of another deployment.
        """
        parts = url_parts(address)
        if not parts.hostname:
            return address  # which `Endpoint` refuses
        path = parts.path.rstrip("/").removesuffix("/chat/completions")
        home, _, deployment = path.partition("/openai/deployments/")
        if deployment and unquote(deployment) != self.settings.model:
            raise ConfigError(
                f"the address contains the deployment {unquote(deployment)}, but the model is azure/{self.settings.model}. Change one of them"
            )
        query = dict(parse_qsl(parts.query))
        self._version = self._version or query.pop("api-version", "")
        query.pop("api-version", None)
        return urlunsplit((parts.scheme, parts.netloc, home.removesuffix("/openai"), urlencode(query), ""))

    async def _post(self, path: str, body: bytes, content_type: str = "") -> tuple[http.Answer, http.Endpoint]:
        try:
            return await super()._post(path, body, content_type)
        except ConfigError as error:
            if not self._credentials:
                raise
            raise ConfigError(f"set AZURE_OPENAI_API_KEY, or sign in to Entra ID (`az login`): {error}") from None

    async def aclose(self) -> None:
        await super().aclose()
        while self._credentials:
            await self._credentials.pop().close()

    def _calls_tools(self) -> bool:
        return self.family.tools

    def _through_sdk(self) -> bool:
        return True

    def _sdk(self) -> http.Transport:
        return AzureSdk(
            self.model, self._version, os.environ.get("OPENAI_API_VERSION") or API_VERSION, self._credential
        )

    def _credential(self) -> Values:
        if token := os.environ.get(_TOKEN):  # before any key, as the SDK has it
            return {"azure_ad_token": token}
        if self.key:
            return {"api_key": self.key}
        try:
            from azure.identity.aio import DefaultAzureCredential, get_bearer_token_provider
        except ImportError as error:
            raise MissingExtra("azure-identity", "azure", "Azure OpenAI without AZURE_OPENAI_API_KEY") from error
        logging.getLogger("azure").addHandler(logging.NullHandler())  # it would print ten lines before titjudge's line
        self._credentials.append(DefaultAzureCredential())
        return {"azure_ad_token_provider": get_bearer_token_provider(self._credentials[-1], _SCOPE)}
