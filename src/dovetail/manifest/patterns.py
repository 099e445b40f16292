"""Regular expressions for text in manifests, valid in Go and Python alike, and a description of each in words.

Every pattern uses only syntax that both engines share. `ACCEPTED_*` are as wide as in Karpenter's CRDs, so that our
CRDs accept what those accept; beside each is the form that `validate` expects. What a pattern cannot express (a
reversed range, a date that never occurs) is checked in `semantics`.
"""

import re
from functools import cache, lru_cache

_SPAN = r"[0-9]+(s|m|h)"
DELAY = rf"^(({_SPAN})+|Never)$"
DURATION = rf"^({_SPAN})+$"
WINDOW = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"
BUDGET_NODES = r"^((100|[0-9]{1,2})%|[0-9]+)$"
PERCENTAGE = r"^[0-9]{1,4}%$"
QUANTITY = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$"
PERCENT_OR_QUANTITY = rf"^(([0-9]{{1,2}}(\.[0-9]{{1,2}})?|100(\.0{{1,2}})?)%|({QUANTITY[1:-1]})?)$"
INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|(\+|-)([01][0-9]|2[0-3]):[0-5][0-9])$"
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*$"
OPTIONAL_SUBDOMAIN = rf"^({DNS_SUBDOMAIN[1:-1]})?$"
ACCEPTED_GROUP = r"^[^/]*$"
GROUP = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*)?$"
API_VERSION = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*(/[a-z0-9]+)?)?$"
KIND = r"^([A-Za-z][A-Za-z0-9]*)?$"
LABEL_KEY = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
TAINT_VALUE = r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
CONDITION_REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
OPTIONAL_REASON = r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?)?$"
ACCEPTED_SUBNET_ID = r"subnet-[0-9a-z]+"
ACCEPTED_SECURITY_GROUP_ID = r"sg-[0-9a-z]+"
ACCEPTED_AMI_ID = r"ami-[0-9a-z]+"
ACCOUNT = r"^[0-9]{12}$"
SUBNET_ID = r"^subnet-[0-9a-z]+$"
SECURITY_GROUP_ID = r"^sg-[0-9a-z]+$"
AMI_ID = r"^ami-[0-9a-z]+$"
RESERVATION_ID = r"^cr-[0-9a-z]+$"
PLACEMENT_GROUP_ID = r"^pg-[0-9a-z]+$"
ALIAS = r"^[A-Za-z0-9]+@[-A-Za-z0-9_.]+$"
VOLUME_SIZE = (
    r"^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G"
    r"|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$"
)
ACCEPTED_VOLUME_SIZE = VOLUME_SIZE.replace("|([1-9]|", "|([1-9]?|")
PRICE = r"^[0-9]+(\.[0-9]+)?$"
PRICE_ADJUSTMENT = r"^([+-][0-9]*\.?[0-9]+|\+[0-9]*\.?[0-9]+%|-[0-9]{1,2}(\.[0-9]+)?%|-100%)$"

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MACROS = ("annually", "yearly", "monthly", "weekly", "daily", "midnight", "hourly")


def _any_case(names: tuple[str, ...]) -> str:
    return "|".join("".join(f"[{letter}{letter.upper()}]" for letter in name) for name in names)


def _cron_field(value: str) -> str:
    """A cron field: a list of `*`, values and ranges, each with an optional step above zero."""
    part = rf"(\*|\?|({value})(-({value}))?)(/0*[1-9][0-9]*)?"
    return rf"{part}(,{part})*"


def _schedule() -> str:
    fields = (
        "0*[1-5]?[0-9]",
        "0*(1?[0-9]|2[0-3])",
        "0*([1-9]|[12][0-9]|3[01])",
        f"0*([1-9]|1[0-2])|{_any_case(_MONTHS)}",
        f"0*[0-6]|{_any_case(_WEEKDAYS)}",
    )
    five = "[ \t]+".join(map(_cron_field, fields)).replace("\t", r"\t")
    return rf"^[ \t]*(@({'|'.join(_MACROS)})|{five})[ \t]*$"


SCHEDULE = _schedule()
ACCEPTED_SCHEDULE = rf"^@({'|'.join(_MACROS)})|" + r"[\t\n\f\r ]".join([".+"] * 5) + "$"

IN_WORDS = {
    DELAY: "a duration in hours, minutes and seconds such as 30s, 1h30m or 720h (a day is 24h), or Never",
    DURATION: "a duration in hours, minutes and seconds such as 30s, 1h30m or 720h (a day is 24h)",
    WINDOW: "hours and minutes such as 8h, 90m or 2h20m",
    BUDGET_NODES: "a count such as 5, or a percentage from 0% to 100%",
    PERCENTAGE: "a percentage such as 60%",
    QUANTITY: "an amount such as 500m, 16 or 64Gi",
    PERCENT_OR_QUANTITY: "an amount such as 500Mi, or a percentage such as 5%",
    INSTANT: "an instant such as 2024-01-31T12:00:00Z",
    CONDITION_REASON: "a word such as NodeClassNotReady",
    OPTIONAL_REASON: "a word such as NodeClassNotReady",
    ACCOUNT: "an account id of 12 digits",
    SCHEDULE: "five cron fields such as 0 9 * * mon-fri (minute 0-59, hour 0-23, day 1-31, month 1-12, weekday 0-6, "
    "Sunday 0; no seconds, no time zone), or one of @" + ", @".join(_MACROS),
    DNS_SUBDOMAIN: "a name of lower-case letters, digits, '-' and '.', starting and ending with a letter or digit",
    GROUP: "an API group such as karpenter.kwok.sh, without version",
    API_VERSION: "a group and version such as karpenter.kwok.sh/v1alpha1",
    KIND: "a kind such as KWOKNodeClass",
    LABEL_KEY: "a label key such as example.com/team: an optional lower-case domain and '/', then a name",
    LABEL_VALUE: "at most 63 letters, digits, '-', '_' and '.', starting and ending with a letter or digit",
    SUBNET_ID: "the id of a subnet such as subnet-09fa4a0a8f233a921",
    SECURITY_GROUP_ID: "the id of a security group such as sg-063d7acfb4b06c82c",
    AMI_ID: "the id of an image such as ami-0a1b2c3d4e5f60718",
    RESERVATION_ID: "the id of a capacity reservation such as cr-01234567890123456",
    PLACEMENT_GROUP_ID: "the id of a placement group such as pg-01234567890123456",
    ALIAS: "a family and a version such as al2023@latest or bottlerocket@v1.20.0",
    VOLUME_SIZE: "a size such as 20Gi or 1Ti",
    PRICE: 'a price per hour such as "0.25", in quotes',
    PRICE_ADJUSTMENT: 'a change with its sign, such as "-10%", "+0.05" or "-0.01", in quotes',
}
"""The expected form of each pattern, in words."""
IN_WORDS |= {
    TAINT_VALUE: IN_WORDS[LABEL_VALUE] + "; leave out an empty value",
    OPTIONAL_SUBDOMAIN: IN_WORDS[DNS_SUBDOMAIN],
    ACCEPTED_GROUP: IN_WORDS[GROUP],
    ACCEPTED_SCHEDULE: IN_WORDS[SCHEDULE],
    ACCEPTED_SUBNET_ID: IN_WORDS[SUBNET_ID],
    ACCEPTED_SECURITY_GROUP_ID: IN_WORDS[SECURITY_GROUP_ID],
    ACCEPTED_AMI_ID: IN_WORDS[AMI_ID],
    ACCEPTED_VOLUME_SIZE: IN_WORDS[VOLUME_SIZE],
}

_PLACEHOLDER = re.compile(
    r"\{\{.{0,199}?\}\}|\{%.{0,199}?%\}|\$\{[A-Za-z_][^}]{0,199}\}|\$\([A-Za-z_]{1,199}\)|<[a-z][^<>]{0,199}>|\A\$[a-z_]\w*\Z",
    re.DOTALL | re.IGNORECASE,
)


@lru_cache(maxsize=1 << 12)
def matches(pattern: str, text: str) -> bool:
    """Whether the text matches, as in Go."""
    return _compiled(pattern).search(text) is not None


def placeholder_in(text: str) -> str | None:
    """The first template placeholder in the text, for example `{{ .Values.x }}` or `${NAME}`."""
    found = _PLACEHOLDER.search(text)
    return found.group() if found else None


def fill_placeholders(text: str, word: str) -> str:
    """The text with this word for every placeholder."""
    return _PLACEHOLDER.sub(word, text)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # Python's `$` would also match before a final newline.
    return re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern)
