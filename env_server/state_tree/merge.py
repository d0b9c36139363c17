"""RFC 7396 merge patches."""

from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with the patch merged in: null removes a member, objects merge, all else replaces. Pure."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, part in patch.items():
        if part is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), part)
    return merged
