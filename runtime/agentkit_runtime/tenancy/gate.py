"""Lets a request in if its tenant's terms allow it.

Tokens are charged as they are computed, so what requests under way may still cost is set aside
(`api.estimate`): a tenant that has anything left beside that may ask once more. So a lone request
is let in whatever it may cost, and many at once exceed a limit by what one of them costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from agentkit_runtime.api.asked import NotYet
from agentkit_runtime.api.estimate import answer_tokens, prompts_tokens
from agentkit_runtime.api.failure import ApiError
from agentkit_runtime.chat import ChatEvent
from agentkit_runtime.tenancy.accounts import Account, Accounts

if TYPE_CHECKING:
    from agentkit_runtime.api.asked import Asked
    from agentkit_runtime.api.caller import Caller
    from agentkit_runtime.tenancy.bucket import Bucket


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
            _check_rate("requests", account.requests)
            _check_rate("tokens", account.tokens)
            _check_reserved(account)
        except NotYet:  # not refused: it comes again
            raise
        except ApiError as error:
            self._note(error)
            account.estimates.wake()
            raise
        if account.requests is not None:
            account.requests.take(1)
        ticket = TenantTicket(account, asked)
        account.estimates.wake()
        return ticket

    def look(self, caller: Caller) -> None:
        """Count a request that wants no answer among those a minute.

        Raises:
            ApiError: 429, there are too many.
        """
        account = self._accounts.of(caller.tenant)
        try:
            _check_rate("requests", account.requests)
        except ApiError as error:
            self._note(error)
            raise
        if account.requests is not None:
            account.requests.take(1)

    def _note(self, refusal: ApiError) -> None:
        code = refusal.code or "invalid"
        self.refused[code] = self.refused.get(code, 0) + 1

    def _check_budget(self, tenant: str, account: Account) -> None:
        ledger, budget = self._accounts.ledger, account.terms.tokens_per_month
        if budget is None:
            return
        spent = ledger.total(tenant)
        if spent < budget <= spent + account.reserved:
            raise _in_use(f"the budget of {budget} tokens for {ledger.month()}", account)
        if spent >= budget:
            raise ApiError(
                f"the budget of {budget} tokens for {ledger.month()} is used up; ask the operator "
                "for more, or wait for the next month",
                status=429,
                code="insufficient_quota",
                retry_after_s=ledger.seconds_left(),
            )


class TenantTicket:
    """A request's place among those of its tenant, and the tokens that are set aside for it."""

    def __init__(self, account: Account, asked: Asked) -> None:
        """Take the place."""
        self._account = account
        self._n = asked.n
        self._has_one_prompt = not asked.more
        self._prompt = self._answers = 0
        """Tokens that are set aside."""
        self._is_settled = account.tokens is None and account.terms.tokens_per_month is None
        """Whether nothing more is to be learnt of what the prompt costs."""
        if not self._is_settled:
            known = asked.prompt_tokens
            self._prompt = prompts_tokens(asked.chats) if known is None else known
            self._answers = asked.n * answer_tokens(asked.chat)
        self._is_estimated = not self._is_settled and self._has_one_prompt
        # At the end: nothing is left behind where the estimate fails.
        if self._is_estimated:
            account.estimates.began()
        account.n_running += self._n
        account.reserved += self._prompt + self._answers

    def opened(self) -> None:
        """Nothing: the request was counted when it came."""

    def costs(self, left: Callable[[], Future[int]]) -> None:
        """Set aside what the engine has to compute, once it says so, in place of the estimate."""
        if self._is_settled or not self._has_one_prompt:
            return
        loop = asyncio.get_running_loop()

        def told(future: Future[int]) -> None:
            if future.cancelled() or future.exception() is not None:
                return  # the engine has stopped: so has the request
            with suppress(RuntimeError):  # the loop is closed: nobody counts any more
                loop.call_soon_threadsafe(self._set_prompt, future.result())

        left().add_done_callback(told)

    def event(self, index: int, event: ChatEvent) -> None:
        """The first one says that the prompt is computed, and charged; of several, one of them."""
        if self._has_one_prompt:
            self._settle()

    def leave(self) -> None:
        """Give the place back, and what is set aside."""
        self._account.n_running -= self._n
        self._account.reserved -= self._answers
        self._answers = 0
        self._settle()

    def _settle(self) -> None:
        self._set_prompt(0)
        self._is_settled = True

    def _set_prompt(self, n_tokens: int) -> None:
        if not self._is_settled:
            self._account.reserved += n_tokens - self._prompt
            self._prompt = n_tokens
        if self._is_estimated:
            self._is_estimated = False
            self._account.estimates.known()


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
            param="prompt" if asked.more else "n",
            code="invalid_value",
        )


def _check_concurrency(asked: Asked, account: Account) -> None:
    limit = account.terms.concurrent_requests
    if limit is not None and account.n_running + asked.n > limit:
        raise ApiError(
            f"answers of this tenant under way: {account.n_running}, of {limit} that it may have "
            "at a time; wait for one to end",
            status=429,
            code="concurrency_limit_exceeded",
            retry_after_s=1,
        )


def _check_rate(what: str, bucket: Bucket | None) -> None:
    if bucket is not None and bucket.level() < 1.0:
        raise ApiError(
            f"the limit of {bucket.per_minute} {what} a minute is reached; slow down",
            status=429,
            code="rate_limit_exceeded",
            retry_after_s=bucket.seconds_until(1.0),
        )


def _check_reserved(account: Account) -> None:
    bucket = account.tokens
    if bucket is not None and bucket.level() - account.reserved < 1.0:
        raise _in_use(f"the limit of {bucket.per_minute} tokens a minute", account)


def _in_use(limit: str, account: Account) -> ApiError:
    """What is set aside is seldom used up: to come again soon is worth it."""
    message = (
        f"{limit} may be used up by this tenant's requests that are under way; wait for one to "
        "end, or ask for fewer tokens (max_tokens)"
    )
    if account.estimates.may_change:
        return NotYet(message, account.estimates.more_known)
    return ApiError(message, status=429, code="rate_limit_exceeded", retry_after_s=1)
