"""Writes a Java agent that does nothing.

LocalStack starts DynamoDB Local with an agent of its own, which it would download. All that one does is to
allow more than twenty indexes; we have five. The jar is put together here, byte by byte, because a machine
that can run Java need not be able to compile it.

Usage: python3 quiet_agent.py FILE.jar
"""

import struct
import sys
import zipfile

MANIFEST = "Manifest-Version: 1.0\r\nPremain-Class: Quiet\r\n\r\n"


def text(value: str) -> bytes:
    return struct.pack(">BH", 1, len(value)) + value.encode()


def class_named_by(index: int) -> bytes:
    return struct.pack(">BH", 7, index)


def quiet_class() -> bytes:
    """public class Quiet { public static void premain(String options) {} }"""
    constants = [
        text("Quiet"),
        class_named_by(1),
        text("java/lang/Object"),
        class_named_by(3),
        text("premain"),
        text("(Ljava/lang/String;)V"),
        text("Code"),
    ]
    # Java 8's format, which every later one reads.
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 52, len(constants) + 1) + b"".join(constants)
    # Public, named by 2, extends 4, no interfaces, no fields, one method.
    shape = struct.pack(">HHHHHH", 0x0021, 2, 4, 0, 0, 1)
    # Room for its one argument, and `return`.
    body = struct.pack(">HHIBHH", 0, 1, 1, 0xB1, 0, 0)
    code = struct.pack(">HI", 7, len(body)) + body
    premain = struct.pack(">HHHH", 0x0009, 5, 6, 1) + code
    return head + shape + premain + struct.pack(">H", 0)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with zipfile.ZipFile(sys.argv[1], "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", MANIFEST)
        jar.writestr("Quiet.class", quiet_class())


if __name__ == "__main__":
    main()
