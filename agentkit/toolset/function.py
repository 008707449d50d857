"""`@tool`: a Python function, or a method of an `Agent`, as a tool.

    @tool
    async def convert(usd: float, currency: Literal["EUR", "GBP"]) -> float:
        '''Convert dollars.

        Args:
            usd: amount in dollars
            currency: ISO code
        '''

The schema comes from the annotations, descriptions from the docstring (Google, NumPy or Sphinx).
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from agentkit.toolset.errors import Retry, ToolDefinitionError, ToolSignal
from agentkit.toolset.failures import bad_result, exit_text, failure
from agentkit.toolset.policy import NeedsApproval, ToolPolicy
from agentkit.toolset.results import to_output
from agentkit.toolset.signature import Signature, check_shape, local_names, read_signature
from agentkit.toolset.target import target_of
from agentkit.toolset.threads import run_in_thread
from agentkit.toolset.tool import ToolContext, ToolOutput, ToolSpec, check_tool_name

if TYPE_CHECKING:
    from agentkit.toolset.schema import ArgumentSchema

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float | None = None,
    requires_approval: bool | NeedsApproval = False,
    idempotent: bool = False,
    retries: int = 0,
    retry_wait_s: float = 0.5,
    max_result_chars: int | None = None,
    defer_loading: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout_s: float | None = None,
    requires_approval: bool | NeedsApproval = False,
    idempotent: bool = False,
    retries: int = 0,
    retry_wait_s: float = 0.5,
    max_result_chars: int | None = None,
    defer_loading: bool = False,
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a function a tool. Works bare and with options, on sync and async functions, methods
    (also above `@staticmethod` and `@classmethod`), partials, and objects with `__call__`.

    What a `partial` has fixed, the model does not see. An object with `__call__` is named after its
    class, and keeps its state from call to call.

    Args:
        function: the function; its name, annotations and docstring describe the tool.
        name: the tool's name, if not the function's.
        description: what the model reads, if not the docstring.
        timeout_s: seconds after which a call answers with an error. A sync function runs in a
            thread, which cannot be stopped: it runs on, but nobody waits for it.
        requires_approval: whether a person must agree to a call, or a function of the arguments
            (as the model gave them) and the `ToolContext` that decides it.
        idempotent: whether a call that a crash cut off may simply be run again.
        retries: how often a call is tried again by itself after an exception or a timeout, not
            after `Retry` or `Failed`. The model hears only the last failure.
        retry_wait_s: seconds before the first of these; twice as long before each further one.
        max_result_chars: longest result that the model reads whole; by default what the agent says.
        defer_loading: whether it is shown only when the model has found it with `find_tools`.

    Raises:
        ToolDefinitionError: the function has `*args` or `**kwargs`, a parameter without
            annotation, a type without a JSON schema, or an illegal name. An annotation that names
            something not yet defined is resolved when the tool is first used.
    """

    policy = ToolPolicy(
        requires_approval=requires_approval,
        idempotent=idempotent,
        retries=retries,
        retry_wait_s=retry_wait_s,
        max_result_chars=max_result_chars,
        defer_loading=defer_loading,
    )

    def decorate(target: Callable[P, R]) -> FunctionTool[P, R]:
        return FunctionTool(
            target,
            name=name,
            description=description,
            timeout_s=timeout_s,
            policy=policy,
            names=local_names(1 if function is None else 2),
        )

    return decorate if function is None else decorate(function)


class FunctionTool(Generic[P, R]):
    """A Python function as a `Tool`. It can still be called directly, as the plain function.

    In a class body it is a descriptor like a function: `desk.convert` is the tool bound to `desk`.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout_s: float | None = None,
        policy: ToolPolicy | None = None,
        names: Mapping[str, object] | None = None,
    ) -> None:
        if isinstance(function, FunctionTool):
            raise ToolDefinitionError(f"{function!r} is a tool already; apply @tool once")
        self._target = target_of(function)
        self.name: str = name or self._target.name
        self._description = description
        self._timeout_s = _check_timeout(timeout_s, self.name)
        self._policy = policy or ToolPolicy()
        self._bound_to: tuple[object, ...] = ()
        check_tool_name(self.name)
        check_shape(self._target, self.name)
        self._names: Mapping[str, object] = names or {}
        self._definition: _Definition | None = None
        # A forward reference is no mistake, so a name that does not exist yet may still come.
        with contextlib.suppress(NameError):
            self._definition = self._define()
        self.__doc__ = self._target.doc
        self.__name__ = self._target.name

    @property
    def spec(self) -> ToolSpec:
        """What the model sees."""
        return self._defined().spec

    @property
    def policy(self) -> ToolPolicy:
        """How its calls are handled."""
        return self._policy

    @property
    def function(self) -> Callable[..., object]:
        """The plain function; of an instance with `__call__`, that method."""
        return self._target.function

    @property
    def is_bound(self) -> bool:
        """False for a method taken from its class: such a tool has a spec, but cannot be called."""
        return bool(self._bound_to) or self._target.binds == "nothing"

    def does_same(self, other: FunctionTool[Any, Any]) -> bool:
        """Whether a call of the other one runs the same function, bound to the same object."""
        mine, theirs = self._bound_to, other._bound_to
        return (
            bool(self._target.call == other._target.call)
            and len(mine) == len(theirs)
            and all(one is another for one, another in zip(mine, theirs, strict=True))
            and (self._policy, self._timeout_s) == (other._policy, other._timeout_s)
        )

    async def call(
        self, arguments: Mapping[str, object], context: ToolContext[object]
    ) -> ToolOutput:
        """Validate the model's arguments, run the function, and answer with its result.

        Wrong arguments, exceptions of the function and a timeout answer with an `is_error` output.

        Raises:
            ToolDefinitionError: a method's tool was taken from the class and not from an instance.
        """
        from agentkit.toolset.schema import InvalidArguments

        self._check_bound()
        definition = self._defined()
        try:
            positional, keywords = definition.arguments.validate(arguments)
        except InvalidArguments as error:
            return ToolOutput.error(str(error))
        if definition.signature.context_parameter is not None:
            keywords[definition.signature.context_parameter] = context
        return await self._run(positional, keywords, context)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function, without validation."""
        function: Callable[..., R] = self._target.call
        return function(*self._bound_to, *args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type[object]) -> FunctionTool[P, R]: ...

    @overload
    def __get__(
        self: FunctionTool[Concatenate[Any, Q], R], instance: object, owner: type[object]
    ) -> FunctionTool[Q, R]: ...

    def __get__(self, instance: object, owner: type[object]) -> FunctionTool[Any, R]:
        binds = self._target.binds
        if binds == "nothing" or (binds == "instance" and instance is None):
            return self
        self._defined()
        bound: FunctionTool[Any, R] = object.__new__(FunctionTool)
        bound.__dict__.update(self.__dict__)
        bound._bound_to = (instance if binds == "instance" else owner,)
        return bound

    def __repr__(self) -> str:
        return f"<tool {self.name!r} from {self._target.source}>"

    async def _run(
        self,
        positional: list[object],
        keywords: dict[str, object],
        context: ToolContext[object],
    ) -> ToolOutput:
        """Run the function within its time; every failure of its own becomes an answer."""
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                value = await self._invoke(positional, keywords)
        except ToolSignal as error:
            return ToolOutput.error(_signal_text(error))
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            # The function awaited something that was cancelled: its failure, not our end.
            return failure(self.name, context, error, "it was cancelled inside.")
        except SystemExit as error:
            # As code written for a command line does. The program is not the tool's to end.
            return failure(self.name, context, error, exit_text(error))
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                return ToolOutput.error(self._timeout_text(), may_pass=True)
            return failure(self.name, context, error)
        return self._output(value, context)

    def _output(self, value: object, context: ToolContext[object]) -> ToolOutput:
        try:
            return to_output(value)
        except ToolSignal as error:
            return ToolOutput.error(_signal_text(error))
        except Exception as error:
            return bad_result(self.name, context, error)

    async def _invoke(self, positional: list[object], keywords: dict[str, object]) -> object:
        function = self._target.call
        arguments = (*self._bound_to, *positional)
        if self._target.is_async:
            return await function(*arguments, **keywords)
        result = await run_in_thread(lambda: function(*arguments, **keywords), self.name)
        # A plain function may return a coroutine, as functools.partial and decorators do.
        result = await result if inspect.isawaitable(result) else result
        # What a generator does is part of the call.
        return list(result) if isinstance(result, Iterator) else result

    def _defined(self) -> _Definition:
        if self._definition is None:
            try:
                self._definition = self._define()
            except NameError as error:
                raise ToolDefinitionError(
                    f"tool {self.name!r}: an annotation of {self._target.qualname} cannot be "
                    f"resolved: {error}; import or define it at module level"
                ) from error
        return self._definition

    def _define(self) -> _Definition:
        signature = read_signature(self._target, self.name, self._names)
        from agentkit.toolset.schema import ArgumentSchema

        arguments = ArgumentSchema.of(signature, self.name)
        # Resolved: the local names of the place of definition need not be kept alive any longer.
        self._names = {}
        description = self._description
        spec = ToolSpec(
            name=self.name,
            description=signature.description if description is None else description,
            parameters=arguments.json_schema(),
            source=self._target.source,
        )
        return _Definition(signature, arguments, spec)

    def _check_bound(self) -> None:
        if not self.is_bound:
            raise ToolDefinitionError(
                f"tool {self.name!r} is the method {self._target.qualname}, taken from the "
                "class; take it from an instance"
            )

    def _timeout_text(self) -> str:
        stopped = "was stopped" if self._target.is_async else "may still run"
        return (
            f"Tool {self.name!r} did not finish within {self._timeout_s:g} s and {stopped}; "
            "whether it had an effect is unknown."
        )


class _Definition:
    """What is known of a tool once its annotations are resolved."""

    __slots__ = ("arguments", "signature", "spec")

    def __init__(self, signature: Signature, arguments: ArgumentSchema, spec: ToolSpec) -> None:
        self.signature = signature
        self.arguments = arguments
        self.spec = spec


def _check_timeout(timeout_s: float | None, name: str) -> float | None:
    if timeout_s is not None and not timeout_s > 0:
        raise ToolDefinitionError(
            f"tool {name!r}: timeout_s must be above 0, not {timeout_s!r}; "
            "leave it out for no limit"
        )
    return timeout_s


def _signal_text(error: ToolSignal) -> str:
    text = str(error) or "The tool could not do this."
    return (
        f"{text}\nCorrect the arguments and call the tool again."
        if isinstance(error, Retry)
        else text
    )


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
