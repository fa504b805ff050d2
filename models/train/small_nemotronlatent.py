"""A small Nemotron 3 whose routed experts read and write a smaller vector. See small_nemotronmoe.py."""

import small_nemotronmoe
from small_nemotronmoe import ARCHITECTURE, randomise, settings, tensors

NAME = "nemotron_h_moe-latent"


def build():
    return small_nemotronmoe.build(latent=32)
