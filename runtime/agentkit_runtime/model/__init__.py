"""The decoder and what turns its logits into tokens.

config.py   shape and constants of a model (no torch)
weights.py  a checkpoint's tensors, fused and laid out for the decoder
linear.py   the seam of weight matrices; float and float16 storage
blocks.py   8- and 4-bit storage, as GGUF's block types have it
norm.py     RMS norm
rope.py     rotary position embedding tables
decoder.py  the Llama-family forward pass over a ForwardBatch
sampler.py  next tokens from logits
"""
