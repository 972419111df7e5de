"""Writes a Java agent that does nothing.

LocalStack starts DynamoDB Local with a Java agent that it would download. That agent only raises the limit of
twenty indexes; Countersign has five. This script writes the class file byte by byte, because a machine with a
Java runtime may have no Java compiler.

Usage: python3 quiet_agent.py FILE.jar
"""

import struct
import sys
import zipfile

MANIFEST = "Manifest-Version: 1.0\r\nPremain-Class: Quiet\r\n\r\n"


def text(value: str) -> bytes:
    return struct.pack(">BH", 1, len(value)) + value.encode()


def class_reference(index: int) -> bytes:
    return struct.pack(">BH", 7, index)


def quiet_class() -> bytes:
    """public class Quiet { public static void premain(String options) {} }"""
    constants = [
        text("Quiet"),
        class_reference(1),
        text("java/lang/Object"),
        class_reference(3),
        text("premain"),
        text("(Ljava/lang/String;)V"),
        text("Code"),
    ]
    # Class file format of Java 8, which later versions read.
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 52, len(constants) + 1) + b"".join(constants)
    # Public; name is constant 2; superclass is constant 4; no interfaces, no fields, one method.
    shape = struct.pack(">HHHHHH", 0x0021, 2, 4, 0, 0, 1)
    # No stack, one local variable for the argument, and the instruction `return`.
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
