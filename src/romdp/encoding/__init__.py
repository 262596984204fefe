"""Vectors in, codes out: views of vectors, codebooks, and the decoder that the dynamics teach."""

from typing import TYPE_CHECKING

from romdp.core.lazy import lazy

if TYPE_CHECKING:
    from romdp.encoding.decoder import Portraits as Portraits
    from romdp.encoding.decoder import StateDecoder as StateDecoder
    from romdp.encoding.encoder import Encoder as Encoder
    from romdp.encoding.views import Encoding as Encoding

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
