"""The settings of a request that matter to what is recorded."""

MOVING = (
    "temperature", "top_p", "top_k", "min_p", "typical_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "logit_bias", "logprobs_mode", "post_sampling_probs", "enable_thinking",
    "chat_template_kwargs", "reasoning_effort", "structured_outputs", "allowed_token_ids",
)  # fmt: skip
"""Settings that can move the recorded numbers although the model is the same."""
