from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bot.errors import SettingsError
from bot.settings import Settings, load_settings

PEM = "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\n"


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the developer has set must not decide a test."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)


def test_without_any_variable_there_are_defaults() -> None:
    """Nothing has to be set to run the embedded database with an untrusting sandbox."""
    settings = load_settings()
    assert settings.database_url is None
    assert settings.ultracode_trust == "untrusted"
    assert settings.github_api_url == "https://api.github.com"
    assert settings.ultracode_retention == timedelta(days=30)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("GITHUB_APP_ID", "my-app", "integer"),
        ("DATABASE_URL", "mysql://root:hunter2@db/x", "not a PostgreSQL URL"),
        ("ULTRACODE_SANDBOX", "none", "'auto', 'bubblewrap', 'container' or 'local'"),
        ("ULTRACODE_RETENTION", "a month", "30d"),
        ("ULTRACODE_MAX_MEMORY", "lots", "4GiB"),
        ("ULTRACODE_MAX_CPUS", "-1", "greater than 0"),
        ("ULTRACODE_ALLOWED_ACCOUNTS", "octocat", "numeric ids"),
        ("PUBLIC_URL", "bot.example", "address"),
    ],
)
def test_a_wrong_setting_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    """It names the variable, says what is wrong and what to do, and shows no value."""
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as error:
        load_settings()
    sentence = str(error.value)
    assert sentence.startswith(f"{name} is wrong: ")
    assert said in sentence
    assert "\n" not in sentence
    assert "hunter2" not in sentence


def test_a_misspelt_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that nobody reads because of a typo is named, with the one that was meant."""
    monkeypatch.setenv("ULTRACODE_TRUSTED", "trusted")
    with pytest.raises(SettingsError, match=r"ULTRACODE_TRUSTED .* mean ULTRACODE_TRUST\?"):
        load_settings()


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """As compose files write it when a variable has no value."""
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("GITHUB_APP_ID", "")
    assert load_settings().database_url is None


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Printing the settings prints no secret."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://bot:hunter2@db/x")
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", "hunter2")
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
    settings = load_settings()
    assert "hunter2" not in f"{settings!r} {settings.model_dump()} {settings.model_dump_json()}"


@pytest.mark.parametrize("missing", ["GITHUB_APP_ID", "GITHUB_PRIVATE_KEY"])
def test_what_the_app_needs_is_asked_for_by_name(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """Whoever needs the App's identity and lacks a part of it is told which."""
    monkeypatch.setenv("GITHUB_APP_ID", "12")
    monkeypatch.setenv("GITHUB_PRIVATE_KEY", PEM)
    monkeypatch.delenv(missing)
    with pytest.raises(SettingsError, match=f"{missing} is not set"):
        load_settings().github_app()


def test_the_private_key_in_a_variable_or_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both ways give the same key; in a variable its line ends may be escaped."""
    monkeypatch.setenv("GITHUB_APP_ID", "12")
    monkeypatch.setenv("GITHUB_PRIVATE_KEY", PEM.replace("\n", "\\n"))
    from_variable = load_settings().github_app()
    monkeypatch.delenv("GITHUB_PRIVATE_KEY")
    (tmp_path / "key.pem").write_text(PEM)
    monkeypatch.setenv("GITHUB_PRIVATE_KEY_PATH", str(tmp_path / "key.pem"))
    from_file = load_settings().github_app()
    assert from_variable == from_file
    assert from_file.private_key.get_secret_value() == PEM


def test_an_unreadable_private_key_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A path that leads nowhere, or to something else, is said in one sentence."""
    monkeypatch.setenv("GITHUB_APP_ID", "12")
    monkeypatch.setenv("GITHUB_PRIVATE_KEY_PATH", str(tmp_path / "nowhere.pem"))
    with pytest.raises(SettingsError, match=r"GITHUB_PRIVATE_KEY_PATH is wrong: .* cannot be read"):
        load_settings().github_app()
    (tmp_path / "nowhere.pem").write_text("not a key")
    with pytest.raises(SettingsError, match="GITHUB_PRIVATE_KEY_PATH is wrong: it holds no PEM"):
        load_settings().github_app()


def test_a_signing_key_is_ed25519_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence is signed with a key, or with none; a wrong one is named and never quoted."""
    assert load_settings().signer() is None
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    monkeypatch.setenv("ULTRACODE_SIGNING_KEY", pem.replace("\n", "\\n"))
    signer = load_settings().signer()
    assert signer is not None
    assert signer.public_key == key.public_key().public_bytes_raw()
    monkeypatch.setenv("ULTRACODE_SIGNING_KEY", "hunter2")
    with pytest.raises(SettingsError, match="ULTRACODE_SIGNING_KEY is wrong") as error:
        load_settings().signer()
    assert "hunter2" not in str(error.value)


def test_two_webhook_secrets_during_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The current secret comes first, and the previous one is still good."""
    with pytest.raises(SettingsError, match="GITHUB_WEBHOOK_SECRET is not set"):
        load_settings().webhook_secrets()
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", "new")
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET_PREVIOUS", "old")
    secrets = [secret.get_secret_value() for secret in load_settings().webhook_secrets()]
    assert secrets == ["new", "old"]


def test_each_role_may_have_its_own_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role's own variable wins over the common one."""
    monkeypatch.setenv("AGENT_MODEL_ID", "openai:common")
    monkeypatch.setenv("AGENT_MODEL_ID_REFUTER", "openai:sharp")
    with pytest.raises(SettingsError, match="OPENAI_API_KEY is not set"):
        load_settings().model("worker")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    settings = load_settings()
    assert settings.model("worker").id == "openai:common"
    assert settings.model("refuter").id == "openai:sharp"


def test_ceilings_are_read_in_the_units_people_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes, accounts and times as an operator would write them."""
    monkeypatch.setenv("ULTRACODE_MAX_MEMORY", "2GiB")
    monkeypatch.setenv("ULTRACODE_MAX_COST_PER_RUN", "2.50")
    monkeypatch.setenv("ULTRACODE_ALLOWED_ACCOUNTS", "583231, 9919")
    monkeypatch.setenv("ULTRACODE_RETENTION", "12h")
    settings = load_settings()
    assert settings.ceilings.memory_bytes == 2 * 1024**3
    assert str(settings.ceilings.cost_per_run) == "2.50"
    assert settings.ultracode_allowed_accounts == {583231, 9919}
    assert settings.ultracode_retention == timedelta(hours=12)


def test_every_setting_says_what_to_do() -> None:
    """Each has a sentence of advice, which is what the operator sees when it is wrong."""
    for name, setting in Settings.model_fields.items():
        assert setting.description, name
        assert setting.description.endswith("."), name
