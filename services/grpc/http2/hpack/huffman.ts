/**
 * The lengths in bits of the codes for the bytes 0 to 255 and the end of a string (RFC 7541, appendix B). The
 * lengths define the codes: codes of one length are consecutive, in the order of their symbols.
 */
const codeLengths = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28,
  28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7,
  8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19,
  13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13,
  28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21,
  22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23,
  22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
  19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25,
  25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
] as const

const endOfString = 256

/** An inner node has children, a leaf has a symbol. */
type Node = { readonly children: [Node | undefined, Node | undefined]; symbol: number | undefined }

function buildTree(): Node {
  const root = newNode()
  let code = 0
  for (let length = 5; length <= 30; length += 1) {
    for (const [symbol, itsLength] of codeLengths.entries()) {
      if (itsLength === length) addCode(root, code++, length, symbol)
    }
    code *= 2
  }
  return root
}

function newNode(): Node {
  return { children: [undefined, undefined], symbol: undefined }
}

function addCode(root: Node, code: number, length: number, symbol: number): void {
  let node = root
  for (let bit = length - 1; bit >= 0; bit -= 1) {
    const side = ((code >>> bit) & 1) as 0 | 1
    node.children[side] ??= newNode()
    node = node.children[side]
  }
  node.symbol = symbol
}

/**
 * A state machine that reads half a byte at a time. A state is an inner node of the code tree. Each state and
 * half byte has the entry `next state << 9 | symbol + 1`, with 0 if no symbol ends (at most one does: no code
 * has less than five bits), or -1 if the end-of-string symbol ends, which strings must not contain (RFC 7541,
 * 5.2).
 */
const { transitions, isEnd } = buildMachine()

function buildMachine() {
  const root = buildTree()
  const states = [root]
  const stateNumbers = new Map([[root, 0]])
  const table: number[] = []
  for (let state = 0; state < states.length; state += 1) {
    for (let nibble = 0; nibble < 16; nibble += 1) {
      const { node, emitted } = walk(root, states[state] ?? root, nibble)
      if (emitted === endOfString) {
        table.push(-1)
        continue
      }
      const next = stateNumbers.get(node) ?? states.push(node) - 1
      stateNumbers.set(node, next)
      table.push((next << 9) | (emitted + 1))
    }
  }
  return { transitions: Int32Array.from(table), isEnd: endStates(root, stateNumbers) }
}

function walk(root: Node, from: Node, nibble: number): { readonly node: Node; readonly emitted: number } {
  let node = from
  let emitted = -1
  for (let bit = 3; bit >= 0; bit -= 1) {
    const child = node.children[((nibble >>> bit) & 1) as 0 | 1] ?? root
    if (child.symbol === undefined) node = child
    else {
      emitted = child.symbol
      node = root
      if (emitted === endOfString) break
    }
  }
  return { node, emitted }
}

/**
 * Returns 1 for each state in which a string may end: after up to seven bits of padding, all ones (RFC 7541,
 * 5.2).
 */
function endStates(root: Node, stateOf: ReadonlyMap<Node, number>): Uint8Array {
  const ends = new Uint8Array(stateOf.size)
  let node: Node | undefined = root
  for (let bits = 0; bits <= 7 && node; bits += 1) {
    const state = stateOf.get(node)
    if (state !== undefined) ends[state] = 1
    node = node.children[1]
  }
  return ends
}

/** Returns the most bytes that a string can decode to: the shortest code has five bits. */
export const maxDecodedBytes = (bytes: number) => Math.ceil((bytes * 8) / 5)

/**
 * Decodes a string to `target`, which must have room for `maxDecodedBytes`. Returns the number of decoded
 * bytes, or -1 for an invalid string (RFC 7541, 5.2).
 */
export function decodeHuffman(source: Uint8Array, start: number, end: number, target: Uint8Array): number {
  let state = 0
  let length = 0
  for (let offset = start; offset < end; offset += 1) {
    const byte = source[offset] ?? 0
    const first = transitions[(state << 4) | (byte >>> 4)] ?? -1
    if (first < 0) return -1
    if (first & 0x1ff) target[length++] = (first & 0x1ff) - 1
    const second = transitions[((first >>> 9) << 4) | (byte & 15)] ?? -1
    if (second < 0) return -1
    if (second & 0x1ff) target[length++] = (second & 0x1ff) - 1
    state = second >>> 9
  }
  return isEnd[state] === 1 ? length : -1
}
