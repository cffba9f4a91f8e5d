"""The rows of the suite, a module for each part of a network."""

from .attention import ATTENTION
from .ends import ENDS
from .families import FAMILIES
from .feedforward import FEEDFORWARD, MIX
from .latent import LATENT
from .long import LONG
from .norms import NORMS
from .recurrent import RECURRENT
from .rotation import ROTATION
from .scaling import SCALING
from .stream import STREAM
from .windows import WINDOWS

ROWS = (
    FAMILIES + ROTATION + SCALING + ATTENTION + WINDOWS + NORMS + FEEDFORWARD + MIX + LATENT + RECURRENT + STREAM + ENDS + LONG
)
