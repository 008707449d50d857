"""What is said, as the content of a message: text, parts, and the marks that a user set on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentkit.blocks import Breakpoint, Text, UserBlock
from agentkit.caching.policy import BlockKind, Ttl
from agentkit.caching.request import Mark
from agentkit.models.hosted.openai_chat.attachments import attachment_part
from agentkit.models.hosted.openai_chat.pieces import Field, Part
from agentkit.models.hosted.openai_chat.profiles import Profile
from agentkit.models.hosted.wire_json import compact_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentForm:
    """How one server takes content. It has one form for ever, so that a mark moves no byte.

    Where marks may stand, content is a list of parts, also if it is one text. Elsewhere text is a
    string, which every template takes, and a list only beside images and files.
    """

    profile: Profile
    label: str
    takes_marks: bool
    """Whether the model has marks; the profile says only how they are written."""

    @property
    def is_listed(self) -> bool:
        """Whether content is always a list."""
        return self.profile.mark is not None

    def content(self, parts: Sequence[Part], *, listed: bool = False) -> Field:
        """Return the content of these parts. `listed`: as a list in any case."""
        if self.is_listed or listed:
            return Field(before=b'"content":[', parts=parts, after=b"]")
        return Field(before=b'"content":', parts=parts)

    def text(
        self,
        text: str,
        breakpoint: Breakpoint | None = None,
        *,
        kind: BlockKind = BlockKind.TEXT,
        markable: bool = True,
        listed: bool = False,
    ) -> Part:
        """Return a text as a part, or as a string where content is one."""
        if not self.is_listed and not listed:
            return Part(data=compact_json(text), kind=kind, mark=self._own_mark(breakpoint))
        return Part(
            data=b'{"type":"text","text":%b}' % compact_json(text),
            kind=kind,
            mark=self._own_mark(breakpoint),
            markable=markable,
        )

    def user(self, blocks: Sequence[UserBlock]) -> Field:
        """Return the content of a user message. Empty texts are left out.

        Raises:
            RequestRefused: the server cannot be shown an image or a file.
        """
        said = [each for each in blocks if not isinstance(each, Text) or each.text]
        if not self.is_listed and all(isinstance(each, Text) for each in said):
            joined = "".join(each.text for each in said if isinstance(each, Text))
            marked = next((each.breakpoint for each in said if each.breakpoint is not None), None)
            return self.content([self.text(joined, marked)])
        parts = [self._user_part(each) for each in said]
        return self.content(parts or [self.text("", listed=True)], listed=True)

    def _user_part(self, block: UserBlock) -> Part:
        if isinstance(block, Text):
            return self.text(block.text, block.breakpoint, listed=True)
        mark = self._own_mark(block.breakpoint)
        return attachment_part(block, self.profile, label=self.label, mark=mark)

    def _own_mark(self, wanted: Breakpoint | None) -> Mark | None:
        """Return the user's mark with the next longer lifetime that exists here.

        Also where there are no marks: the plan leaves it out, and says so.
        """
        field = self.profile.mark
        if wanted is None:
            return None
        if field is None or not self.takes_marks:
            return Mark()
        if wanted == "default" or not field.ttls:
            return Mark()
        longer = [ttl for ttl in field.ttls if ttl.seconds >= Ttl(wanted).seconds]
        return Mark(longer[0] if longer else field.ttls[-1])
