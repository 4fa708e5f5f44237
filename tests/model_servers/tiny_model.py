"""Writes a language model with random weights as a GGUF file of a few hundred kilobytes: `tiny_model.py TEXT FILE`.

It writes nonsense, but it is served like any other model. The words of TEXT are tokens, so that prompts have about as many
tokens as with a real model.
"""

import re
import sys

import gguf
import numpy as np

WINDOW, WIDTH, HEADS, FEED_FORWARD, LAYERS = 2048, 32, 2, 64, 1


def vocabulary(text):
    """Special tokens, bytes, and the words of the text with all their beginnings, from which the tokenizer joins them."""
    words = sorted(set(re.findall(r"[A-Za-z]+|[^A-Za-z\s]", text)))
    pieces = {chr(c) for c in range(33, 127)} | {"▁", "\n"}
    for word in words:
        spaced = "▁" + word
        pieces |= {spaced[:n] for n in range(1, len(spaced) + 1)}
        pieces |= {word[:n] for n in range(1, len(word) + 1)}
    special = [("<unk>", gguf.TokenType.UNKNOWN), ("<s>", gguf.TokenType.CONTROL), ("</s>", gguf.TokenType.CONTROL)]
    byte = [(f"<0x{n:02X}>", gguf.TokenType.BYTE) for n in range(256)]
    normal = [(piece, gguf.TokenType.NORMAL) for piece in sorted(pieces)]
    return [(token, kind, float(len(token))) for token, kind in special + byte + normal]


def main(text_path, path):
    with open(text_path, encoding="utf-8") as file:
        tokens = vocabulary(file.read())
    random = np.random.default_rng(7)

    def weights(*shape):
        return (random.standard_normal(shape) * 0.02).astype(np.float16)

    def ones(*shape):
        return np.ones(shape, dtype=np.float32)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(WINDOW)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token for token, _, _ in tokens])
    writer.add_token_types([kind for _, kind, _ in tokens])
    writer.add_token_scores([score for _, _, score in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(
        "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n\\n' }}{% endfor %}assistant: "
    )
    # The first dimension is the same everywhere, so that it acts as a bias: bytes, which seldom make up characters, and the
    # end are never chosen, so each reply has text and goes on to the output limit.
    embedding, output = weights(len(tokens), WIDTH), weights(len(tokens), WIDTH)
    embedding[:, 0] = 1
    for row, (_, kind, _) in enumerate(tokens):
        output[row, 0] = 0 if kind == gguf.TokenType.NORMAL else -10
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", ones(WIDTH))
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"{block}.{name}.weight", weights(WIDTH, WIDTH))
        writer.add_tensor(f"{block}.ffn_gate.weight", weights(FEED_FORWARD, WIDTH))
        writer.add_tensor(f"{block}.ffn_up.weight", weights(FEED_FORWARD, WIDTH))
        writer.add_tensor(f"{block}.ffn_down.weight", weights(WIDTH, FEED_FORWARD))
        writer.add_tensor(f"{block}.attn_norm.weight", ones(WIDTH))
        writer.add_tensor(f"{block}.ffn_norm.weight", ones(WIDTH))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(*sys.argv[1:])
