"""Colours of CSS, as far as is needed to see that a text has that of its background.

Values as in CSS Color Module Level 4: names (the usual ones), `#` with 3 to 8 digits, `rgb()` and
`hsl()`. What is none of these, such as `var(...)`, is not known here.
"""

from __future__ import annotations

import colorsys
import re

Colour = tuple[float, float, float, float]
"""Red, green, blue and opacity, each from 0 to 1."""

_NAMES = {
    "black": "000000",
    "silver": "c0c0c0",
    "gray": "808080",
    "grey": "808080",
    "white": "ffffff",
    "maroon": "800000",
    "red": "ff0000",
    "purple": "800080",
    "fuchsia": "ff00ff",
    "magenta": "ff00ff",
    "green": "008000",
    "lime": "00ff00",
    "olive": "808000",
    "yellow": "ffff00",
    "navy": "000080",
    "blue": "0000ff",
    "teal": "008080",
    "aqua": "00ffff",
    "cyan": "00ffff",
    "orange": "ffa500",
    "lightgray": "d3d3d3",
    "lightgrey": "d3d3d3",
    "whitesmoke": "f5f5f5",
    "snow": "fffafa",
    "ivory": "fffff0",
    "transparent": "00000000",
}
_HEX = re.compile(r"#?([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})")
_FUNCTION = re.compile(r"(rgb|hsl)a?\(([^()]*)\)")
_NUMBER = re.compile(r"([+-]?\d*\.?\d+)(%|deg)?")
_ALIKE = 0.04
"""Colours that differ by less, in each part, are one to a reader."""

_SEEN_THROUGH = 0.05


def colour(text: str) -> Colour | None:
    """The colour that a value in lower case names; None: it is not known."""
    text = text.strip()
    if digits := _HEX.fullmatch(_NAMES.get(text, text)):
        return _of_digits(digits.group(1))
    function = _FUNCTION.fullmatch(text)
    numbers = [_number(*found) for found in _NUMBER.findall(function.group(2))] if function else []
    if function is None or len(numbers) not in (3, 4):
        return None
    opacity = numbers[3] if len(numbers) == 4 else 1.0
    if function.group(1) == "hsl":
        hue, saturation, lightness = numbers[:3]
        return (*colorsys.hls_to_rgb(hue / 360 % 1, lightness, saturation), opacity)
    red, green, blue = (
        each if kind == "%" else each / 255
        for each, (_, kind) in zip(numbers, _NUMBER.findall(function.group(2))[:3], strict=False)
    )
    return red, green, blue, opacity


def is_transparent(of: Colour) -> bool:
    """Whether nothing of it is seen."""
    return of[3] <= _SEEN_THROUGH


def are_alike(first: Colour, second: Colour) -> bool:
    """Whether a reader cannot tell one from the other."""
    return all(abs(a - b) < _ALIKE for a, b in zip(first[:3], second[:3], strict=True))


def _of_digits(digits: str) -> Colour:
    if len(digits) < 6:
        digits = "".join(digit * 2 for digit in digits)
    red, green, blue, opacity = (
        int(digits.ljust(8, "f")[at : at + 2], 16) / 255 for at in (0, 2, 4, 6)
    )
    return red, green, blue, opacity


def _number(text: str, kind: str) -> float:
    return float(text) / 100 if kind == "%" else float(text)
