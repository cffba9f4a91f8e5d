"""Numbers as text: the shortest that reads back to the same bits, as C++'s std::to_chars prints them."""

import re

import numpy as np


def shortest(value):
    """Text of a Python float or a numpy float32; NaN and infinities become JSON strings."""
    text = str(value)
    magnitude = abs(value)
    if 0.001 <= magnitude < 10000.0:  # most numbers: nothing shorter exists than the plain form
        return text[:-2] if text.endswith(".0") else text
    if magnitude == 0.0:
        return text[:-2]
    if magnitude != magnitude:
        return '"NaN"'
    if magnitude == float("inf"):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return ("-" if value < 0 else "") + _shorter_form(text.lstrip("-"), magnitude)


def _shorter_form(text, magnitude):
    """The shorter of the plain and the scientific form, the plain one if they are of one length."""
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(digits) - len(fraction) + int(exponent or 0)  # digits before the decimal point
    digits = digits.rstrip("0")
    power = point - 1
    tail = f"e{'-' if power < 0 else '+'}{abs(power):02d}"
    scientific = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + tail
    if point >= len(digits):
        plain = str(int(magnitude))  # a whole number is printed exactly
    elif point > 0:
        plain = digits[:point] + "." + digits[point:]
    else:
        plain = "0." + "0" * -point + digits
    return plain if len(plain) <= len(scientific) else scientific


def float32_array(values):
    """JSON array of values as float32."""
    return "[" + ",".join(map(shortest, np.asarray(values).astype(np.float32))) + "]"


def double_array(values):
    return "[" + ",".join(shortest(float(value)) for value in values) + "]"


def _escaped(match):
    character = match[0]
    if character in '"\\':
        return "\\" + character
    code = ord(character)
    if 0xD800 <= code < 0xE000:
        code = 0xFFFD
    if code > 0xFFFF:
        return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"


# What a terminal would hide or execute instead of printing: control characters, text direction characters, those
# that cannot be seen. And lone surrogates, which no UTF-8 file can hold.
_UNSEEN = re.compile(
    '["\\\\\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff'
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def text(value):
    """A JSON string with every character visible; lone surrogates become U+FFFD."""
    return '"' + _UNSEEN.sub(_escaped, str(value)) + '"'
