"""Lets a request in if its tenant's terms allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatEvent
from agentkit_runtime.tenancy.accounts import Account, Accounts

if TYPE_CHECKING:
    from agentkit_runtime.api.answering import Asked


class TenantGate:
    """Holds tenants to their terms. Used in the server's event loop.

    To be asked after the gates that look at the server: a request that finds no room there costs
    its tenant nothing. One that is wrong does count: it is work, too.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self.refused: dict[str, int] = {}
        """Refusals since start, by their code."""

    def enter(self, asked: Asked) -> TenantTicket:
        """Let a request in, and count it.

        Raises:
            ApiError: 400 or 403 for what the tenant may never ask for, 429 for what it may not now.
        """
        tenant = asked.caller.tenant
        account = self._accounts.of(tenant)
        try:
            _check_request(asked, account)
            self._check_budget(tenant, account)
            _check_concurrency(asked, account)
            _check_rates(account)
        except ApiError as error:
            code = error.code or "invalid"
            self.refused[code] = self.refused.get(code, 0) + 1
            raise
        if account.requests is not None:
            account.requests.take(1)
        account.n_running += asked.n
        return TenantTicket(account, asked.n)

    def _check_budget(self, tenant: str, account: Account) -> None:
        ledger, budget = self._accounts.ledger, account.terms.tokens_per_month
        if budget is not None and ledger.total(tenant) >= budget:
            raise ApiError(
                f"the budget of {budget} tokens for {ledger.month()} is used up; ask the operator "
                "for more, or wait for the next month",
                status=429,
                code="insufficient_quota",
                retry_after_s=ledger.seconds_left(),
            )


class TenantTicket:
    """A request's place among those of its tenant."""

    def __init__(self, account: Account, n: int) -> None:
        self._account = account
        self._n = n

    def opened(self) -> None:
        """Nothing: the request was counted when it came."""

    def event(self, index: int, event: ChatEvent) -> None:
        """Nothing: the engine counts tokens."""

    def leave(self) -> None:
        """Give the place back."""
        self._account.n_running -= self._n


def _check_request(asked: Asked, account: Account) -> None:
    terms = account.terms
    if asked.chat.priority > terms.priority:
        raise ApiError(
            f"requests of this tenant may be {terms.max_priority} at most; ask for that, or leave "
            "the priority out",
            status=403,
            code="priority_not_allowed",
        )
    if terms.concurrent_requests is not None and asked.n > terms.concurrent_requests:
        raise ApiError(
            f"{asked.n} answers are more than this tenant may have at a time, "
            f"{terms.concurrent_requests}; ask for fewer",
            param="n",
            code="invalid_value",
        )


def _check_concurrency(asked: Asked, account: Account) -> None:
    limit = account.terms.concurrent_requests
    if limit is not None and account.n_running + asked.n > limit:
        raise ApiError(
            f"{account.n_running} answers of this tenant are being written, and it may have "
            f"{limit} at a time; wait for one to end",
            status=429,
            code="concurrency_limit_exceeded",
            retry_after_s=1,
        )


def _check_rates(account: Account) -> None:
    for what, bucket in (("requests", account.requests), ("tokens", account.tokens)):
        if bucket is not None and bucket.level() < 1.0:
            raise ApiError(
                f"the limit of {bucket.per_minute} {what} a minute is reached; slow down",
                status=429,
                code="rate_limit_exceeded",
                retry_after_s=bucket.seconds_until(1.0),
            )
