"""Two people talk in a chat room; a third comes late and hears what is said from then on.

ecumene serve --data-dir /tmp/example &
python examples/chat_room.py
"""

from __future__ import annotations

import sys

from ecumene import sync


def main(address: str) -> None:
    """Talk in a new room of the server's world."""
    with sync.connect(address) as world:
        room = world.environment("/tea-room")
        room.register(kind="chat_room", if_absent=True)
        for name in ("ada", "bob"):
            room.invoke("join", member=name)
        room.invoke("speak", member="ada", text="Has anybody seen the sugar?")
        room.invoke("join", member="eve")
        room.invoke("speak", member="bob", text="Eve has just brought it.")
        print("members:", ", ".join(room.invoke("members")))
        for name in ("ada", "eve"):
            print(f"{name} hears:")
            for said in room.invoke("history", member=name):
                print(f"  {said['message']}. {said['member']}: {said['text']}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7170")
