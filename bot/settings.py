"""The operator's settings. In: the environment, read here and nowhere else. Out: one `Settings`.

Why: a missing or wrong setting is one line at start that names the variable and says what to do,
never a traceback later. Every default stands here, once. What only some processes need (the GitHub
App's key, the model) is asked for by a method that raises the same kind of sentence, so that
`ultracode db upgrade` runs with a database alone.
"""

import difflib
import os
import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from bot.errors import SettingsError
from workspace.signing import KeyUnreadable, Signer

AgentRole = Literal["planner", "worker", "reducer", "verifier", "refuter"]
ServerRole = Literal["web", "worker"]

#: Settings whose loss would let a stranger act as us, and the one role that works with each.
_SECRET_OF: Final[dict[str, ServerRole]] = {
    "github_client_secret": "web",
    "github_private_key": "worker",
    "github_private_key_path": "worker",
    "openai_api_key": "worker",
    "ultracode_signing_key": "worker",
}

#: What a process of the web role needs of the environment beside settings: where programs,
#: modules, certificates and time zones are, and how it writes. Nothing here is a secret.
_WEB_NEEDS: Final = re.compile(
    r"HOME|LD_LIBRARY_PATH|LOGNAME|NO_COLOR|PATH|TERM|TMPDIR|USER|VIRTUAL_ENV|XDG_DATA_HOME"
    r"|LANG(UAGE)?|LC_[A-Z]+|PYTHON[A-Z]+|SSL_CERT_(DIR|FILE)|TZ(DIR)?"
)

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_POSTGRES: Final = re.compile(r"postgres(?:ql)?(?:\+psycopg)?://")


def _parse_duration(value: object) -> object:
    """Read `30d`, `12h`, `10m`; leave everything else to pydantic."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", value) if isinstance(value, str) else None
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else value


def _parse_ids(value: object) -> object:
    """Read `1234, 5678` as numbers; leave everything else to pydantic."""
    return value.replace(",", " ").split() if isinstance(value, str) else value


Duration = Annotated[timedelta, BeforeValidator(_parse_duration)]
Ids = Annotated[frozenset[PositiveInt], NoDecode, BeforeValidator(_parse_ids)]
Url = Annotated[str, Field(pattern=r"^https?://[^\s/]+", max_length=2_000)]
Money = Annotated[Decimal, Field(gt=0)]


class GitHubApp(BaseModel):
    """Who the bot is on GitHub."""

    model_config = ConfigDict(frozen=True)

    app_id: int
    private_key: SecretStr
    api_url: str


class TokenVerification(BaseModel):
    """How API tokens are verified: RS256, this public key, this audience, this issuer."""

    model_config = ConfigDict(frozen=True)

    key: SecretStr
    audience: str
    issuer: str


class ModelSettings(BaseModel):
    """Which model a role speaks to, and how. `base_url` is None for the provider's own address."""

    model_config = ConfigDict(frozen=True)

    id: str
    api_key: SecretStr
    base_url: str | None


class Ceilings(BaseModel):
    """The operator's ceilings, which clamp every policy. None means no ceiling."""

    model_config = ConfigDict(frozen=True)

    tokens_per_run: int | None
    tokens_per_repository_day: int | None
    tokens_per_installation_day: int | None
    cost_per_run: Decimal | None
    cost_per_repository_day: Decimal | None
    cost_per_installation_day: Decimal | None
    runs_per_installation: int
    queue_depth: int
    memory_bytes: int
    cpus: float
    disk_bytes: int


class Settings(BaseSettings):
    """Every setting, by the name of its variable in lower case.

    A field's description says what to do about it: it ends the sentence shown when it is wrong.
    """

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True
    )

    # Where things are kept
    database_url: SecretStr | None = Field(
        None,
        description="Give a PostgreSQL URL such as postgresql://user:password@host/name, or leave "
        "it out to use the embedded server.",
    )
    agentos_database_url: SecretStr | None = Field(
        None, description="Give a PostgreSQL URL, or leave it out to use DATABASE_URL."
    )
    ultracode_data_dir: Path | None = Field(
        None, description="Give the path of a folder this process may write to."
    )
    artifacts_url: str | None = Field(
        None,
        pattern=r"^(file|s3|gs|az|memory)://",
        description="Give a URL such as s3://bucket/prefix, or leave it out to use the data "
        "folder.",
    )
    ultracode_retention: Duration = Field(
        timedelta(days=30), description="Give a time such as 30d or 12h."
    )

    # GitHub
    github_app_id: PositiveInt | None = Field(
        None, description="Give the number from the App's settings page on GitHub."
    )
    github_private_key: SecretStr | None = Field(
        None, description="Give the App's private key (PEM), or GITHUB_PRIVATE_KEY_PATH."
    )
    github_private_key_path: Path | None = Field(
        None, description="Give the path of the App's private key (PEM)."
    )
    github_webhook_secret: SecretStr | None = Field(
        None, description="Give the secret from the App's settings page on GitHub."
    )
    github_webhook_secret_previous: SecretStr | None = Field(
        None, description="Give the secret used before, while it is being rotated."
    )
    github_api_url: Url = Field(
        "https://api.github.com",
        description="Give https://HOST/api/v3 for GitHub Enterprise Server.",
    )
    github_client_id: str | None = Field(None, description="Give the App's client id.")
    github_client_secret: SecretStr | None = Field(None, description="Give a client secret.")
    ultracode_operators: Ids = Field(
        frozenset(),
        description="Give numeric ids of GitHub accounts, separated by commas, that may see "
        "how the server does; a run's page asks for their own read permission all the same.",
    )
    ultracode_allowed_accounts: Ids = Field(
        frozenset(),
        description="Give numeric ids of accounts, separated by commas; without it only the App's "
        "owner is served.",
    )

    # Models
    agent_model_id: str | None = Field(
        None, description="Give openai:<id>, or an OpenAI model id alone."
    )
    agent_model_id_planner: str | None = Field(None, description="Give openai:<id>.")
    agent_model_id_worker: str | None = Field(None, description="Give openai:<id>.")
    agent_model_id_reducer: str | None = Field(None, description="Give openai:<id>.")
    agent_model_id_verifier: str | None = Field(None, description="Give openai:<id>.")
    agent_model_id_refuter: str | None = Field(None, description="Give openai:<id>.")
    openai_api_key: SecretStr | None = Field(None, description="Give the model provider's key.")
    openai_base_url: Url | None = Field(
        None, description="Give the address of a server that speaks the Responses API."
    )
    ultracode_prices: Path | None = Field(
        None, description="Give the path of a file with money per million tokens by model."
    )

    # The sandbox
    ultracode_sandbox: Literal["auto", "bubblewrap", "container", "local"] = Field(
        "auto", description="Choose auto, bubblewrap, container or local."
    )
    ultracode_trust: Literal["untrusted", "trusted"] = Field(
        "untrusted",
        description="Choose untrusted, or trusted to admit running code without a sandbox.",
    )

    # The server
    public_url: Url | None = Field(
        None, description="Give the address under which people reach this server."
    )
    jwt_verification_key: SecretStr | None = Field(
        None, description="Give the public key (PEM, RS256) that verifies API tokens."
    )
    jwt_audience: str | None = Field(None, description="Give the audience API tokens must name.")
    jwt_issuer: str | None = Field(None, description="Give the issuer API tokens must name.")
    ultracode_signing_key: SecretStr | None = Field(
        None,
        description="Give an Ed25519 private key in PEM, as `openssl genpkey -algorithm ed25519` "
        "makes one, or leave it out: evidence is unsigned then.",
    )
    otel_exporter_otlp_endpoint: Url | None = Field(
        None,
        description="Give the address of an OTLP collector that takes HTTP, such as "
        "http://127.0.0.1:4318, or leave it out: nothing is traced then.",
    )
    otel_exporter_otlp_headers: SecretStr | None = Field(
        None, description="Give what the collector wants to be told, such as api-key=SECRET."
    )
    ultracode_worker_jobs: PositiveInt = Field(
        8, description="Give how many jobs one worker process runs side by side."
    )
    ultracode_crashpoint: str | None = Field(
        None, description="Leave it out: it stops the process on purpose, in tests."
    )

    # Ceilings
    ultracode_max_tokens_per_run: PositiveInt | None = Field(4_000_000, description="Give tokens.")
    ultracode_max_tokens_per_repository_day: PositiveInt | None = Field(
        20_000_000, description="Give tokens."
    )
    ultracode_max_tokens_per_installation_day: PositiveInt | None = Field(
        50_000_000, description="Give tokens."
    )
    ultracode_max_cost_per_run: Money | None = Field(
        None, description="Give money, in the currency of ULTRACODE_PRICES."
    )
    ultracode_max_cost_per_repository_day: Money | None = Field(
        None, description="Give money, in the currency of ULTRACODE_PRICES."
    )
    ultracode_max_cost_per_installation_day: Money | None = Field(
        None, description="Give money, in the currency of ULTRACODE_PRICES."
    )
    ultracode_max_runs_per_installation: PositiveInt = Field(
        8, description="Give how many runs may work at once."
    )
    ultracode_max_queue_depth: PositiveInt = Field(
        1_000, description="Give how many runs may wait to start."
    )
    ultracode_max_memory: ByteSize = Field(
        ByteSize(4 * 1024**3), gt=0, description="Give a size such as 4GiB."
    )
    ultracode_max_cpus: PositiveFloat = Field(4.0, description="Give a number of CPUs.")
    ultracode_max_disk: ByteSize = Field(
        ByteSize(8 * 1024**3), gt=0, description="Give a size such as 8GiB."
    )

    @field_validator("database_url", "agentos_database_url")
    @classmethod
    def _is_postgres(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _POSTGRES.match(value.get_secret_value()):
            raise ValueError("it is not a PostgreSQL URL")
        return value

    @property
    def data_dir(self) -> Path:
        """Where everything is kept that is not in the database, absolute."""
        return (self.ultracode_data_dir or _default_data_dir()).absolute()

    @property
    def ceilings(self) -> Ceilings:
        """The operator's ceilings, named as the code speaks of them."""
        return Ceilings(
            tokens_per_run=self.ultracode_max_tokens_per_run,
            tokens_per_repository_day=self.ultracode_max_tokens_per_repository_day,
            tokens_per_installation_day=self.ultracode_max_tokens_per_installation_day,
            cost_per_run=self.ultracode_max_cost_per_run,
            cost_per_repository_day=self.ultracode_max_cost_per_repository_day,
            cost_per_installation_day=self.ultracode_max_cost_per_installation_day,
            runs_per_installation=self.ultracode_max_runs_per_installation,
            queue_depth=self.ultracode_max_queue_depth,
            memory_bytes=int(self.ultracode_max_memory),
            cpus=self.ultracode_max_cpus,
            disk_bytes=int(self.ultracode_max_disk),
        )

    def github_app(self) -> GitHubApp:
        """Who the bot is on GitHub.

        Raises:
            SettingsError: GITHUB_APP_ID or the private key is missing or unreadable.
        """
        if self.github_app_id is None:
            raise _missing("github_app_id")
        return GitHubApp(
            app_id=self.github_app_id,
            private_key=self._private_key(),
            api_url=self.github_api_url.rstrip("/"),
        )

    def webhook_secrets(self) -> tuple[SecretStr, ...]:
        """The secrets a webhook may be signed with: the current one first, then the previous.

        Raises:
            SettingsError: GITHUB_WEBHOOK_SECRET is missing.
        """
        if self.github_webhook_secret is None:
            raise _missing("github_webhook_secret")
        both = (self.github_webhook_secret, self.github_webhook_secret_previous)
        return tuple(secret for secret in both if secret is not None)

    def signer(self) -> Signer | None:
        """What workers sign evidence with; None without a key.

        Raises:
            SettingsError: ULTRACODE_SIGNING_KEY is no Ed25519 key.
        """
        if self.ultracode_signing_key is None:
            return None
        try:
            text = self.ultracode_signing_key.get_secret_value()
            return Signer.parse(text.replace("\\n", "\n"))
        except KeyUnreadable:
            raise _wrong("ultracode_signing_key", "it holds no Ed25519 private key") from None

    def token_verification(self) -> TokenVerification | None:
        """How API tokens are verified; None without JWT_VERIFICATION_KEY: then none is accepted.

        Raises:
            SettingsError: The key is no public key, or JWT_AUDIENCE or JWT_ISSUER is missing.
        """
        if self.jwt_verification_key is None:
            return None
        if not self.jwt_audience:
            raise _missing("jwt_audience")
        if not self.jwt_issuer:
            raise _missing("jwt_issuer")
        pem = self.jwt_verification_key.get_secret_value().replace("\\n", "\n")
        if not pem.lstrip().startswith("-----BEGIN PUBLIC KEY"):
            raise _wrong("jwt_verification_key", "it holds no public key in PEM")
        return TokenVerification(
            key=SecretStr(pem), audience=self.jwt_audience, issuer=self.jwt_issuer
        )

    def agentos_verification(self) -> TokenVerification:
        """How AgentOS verifies tokens; it is not served without.

        Raises:
            SettingsError: One of the three settings it takes is missing or wrong.
        """
        verification = self.token_verification()
        if verification is None:
            raise SettingsError(
                "--agentos needs JWT_VERIFICATION_KEY, JWT_AUDIENCE and JWT_ISSUER. "
                + str(_missing("jwt_verification_key"))
            )
        return verification

    def model(self, role: AgentRole) -> ModelSettings:
        """The model of one role: its own variable, else AGENT_MODEL_ID.

        Raises:
            SettingsError: No model or no key is set.
        """
        model_id = getattr(self, f"agent_model_id_{role}") or self.agent_model_id
        if model_id is None:
            raise _missing("agent_model_id")
        if self.openai_api_key is None:
            raise _missing("openai_api_key")
        return ModelSettings(
            id=model_id, api_key=self.openai_api_key, base_url=self.openai_base_url
        )

    def _private_key(self) -> SecretStr:
        if self.github_private_key is not None:
            pem = self.github_private_key.get_secret_value().replace("\\n", "\n")
            name = "github_private_key"
        elif self.github_private_key_path is not None:
            pem = _read_text(self.github_private_key_path, "github_private_key_path")
            name = "github_private_key_path"
        else:
            raise _missing("github_private_key")
        if not pem.lstrip().startswith("-----BEGIN"):
            raise _wrong(name, "it holds no PEM key")
        return SecretStr(pem)


def load_settings() -> Settings:
    """Read the environment.

    Raises:
        SettingsError: One sentence that names the variable and says what to do.
    """
    _refuse_misspelt_names()
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        reason = first["msg"].removeprefix("Value error, ")
        raise _wrong(str(first["loc"][0]), reason[:1].lower() + reason[1:]) from None


def role_environment(role: ServerRole) -> dict[str, str]:
    """Return what one role of the server is started with: never a secret only the other needs.

    The web role faces the network, so it gets settings and what `_WEB_NEEDS` names, nothing else.
    The worker gets the rest as well: object stores, proxies and collectors have variables of their
    own. Names of settings are read in either case, so they are compared in lower case.
    """
    settings = Settings.model_fields.keys()
    return {
        name: value
        for name, value in os.environ.items()
        if _SECRET_OF.get(name.lower(), role) == role
        and (role == "worker" or name.lower() in settings or _WEB_NEEDS.fullmatch(name))
    }


def _refuse_misspelt_names() -> None:
    """Refuse `ULTRACODE_SANDBX`: a misspelt setting would otherwise silently be its default."""
    known = {name.upper() for name in Settings.model_fields}
    for name in os.environ:
        if not name.startswith("ULTRACODE_") or name in known:
            continue
        for meant in difflib.get_close_matches(name, known, n=1, cutoff=0.85):
            raise SettingsError(f"{name} is not a setting. Did you mean {meant}?")


def _default_data_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/ultracode")
    data_home = os.environ.get("XDG_DATA_HOME")
    return (Path(data_home) if data_home else Path.home() / ".local" / "share") / "ultracode"


def _read_text(path: Path, name: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(name, f"{path} cannot be read ({type(error).__name__})") from None


def _missing(name: str) -> SettingsError:
    return SettingsError(f"{name.upper()} is not set. {_advice(name)}")


def _wrong(name: str, reason: str) -> SettingsError:
    return SettingsError(f"{name.upper()} is wrong: {reason}. {_advice(name)}")


def _advice(name: str) -> Any:
    return Settings.model_fields[name].description
