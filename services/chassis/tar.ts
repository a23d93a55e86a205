import { readFileSync } from 'node:fs'
import type { FileTree, TreeEntry } from './file-tree.ts'

/**
 * The format is ustar (POSIX.1-1988), which every program reads. All fields are fixed: no byte depends on who
 * packs or when.
 */
const blockBytes = 512
const maxNameBytes = 100
const maxPrefixBytes = 155
const maxFileBytes = 0o77777777777

const typeFlags = { file: '0', link: '2', folder: '5' } as const

/**
 * Yields the bytes of a tar archive in the order of the tree, and reads one file at a time.
 *
 * @throws Error for a path of more than 255 bytes, or of more than 100 without a `/` to divide it at; for a
 *   link target of more than 100 bytes; and for a file of 8 GiB or more
 */
export function* packTar(tree: FileTree): Generator<Uint8Array> {
  for (const [path, entry] of tree) {
    const content = readContent(entry)
    yield header(path, entry, content.length)
    yield content
    yield Buffer.alloc((blockBytes - (content.length % blockBytes)) % blockBytes)
  }
  yield Buffer.alloc(2 * blockBytes)
}

function readContent(entry: TreeEntry): Uint8Array {
  if (entry.kind !== 'file') return Buffer.alloc(0)
  return 'path' in entry.content ? readFileSync(entry.content.path) : entry.content
}

function header(path: string, entry: TreeEntry, bytes: number): Buffer {
  if (bytes > maxFileBytes)
    throw new Error(`/${path} has ${bytes} bytes; at most ${maxFileBytes} are allowed`)
  const block = Buffer.alloc(blockBytes)
  const { prefix, name } = splitPath(entry.kind === 'folder' ? `${path}/` : path)
  const target = entry.kind === 'link' ? entry.target : ''
  if (Buffer.byteLength(target) > maxNameBytes) {
    throw new Error(`/${path} leads to ${target}; at most ${maxNameBytes} bytes are allowed`)
  }
  block.write(name, 0)
  writeOctal(block, 100, 8, entry.kind === 'link' ? 0o777 : entry.mode)
  writeOctal(block, 108, 8, 0) // the user root
  writeOctal(block, 116, 8, 0) // the group root
  writeOctal(block, 124, 12, bytes)
  writeOctal(block, 136, 12, 0) // the epoch
  block.write(' '.repeat(8), 148) // counts as blanks in the checksum
  block.write(typeFlags[entry.kind], 156)
  block.write(target, 157)
  block.write('ustar\u000000', 257)
  block.write(prefix, 345)
  let sum = 0
  for (const byte of block) sum += byte
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
  return block
}

function writeOctal(block: Buffer, offset: number, length: number, value: number): void {
  block.write(value.toString(8).padStart(length - 1, '0'), offset)
}

/** Divides a path at a `/`: at most 155 bytes before it, and at most 100 after it. */
function splitPath(path: string): { readonly prefix: string; readonly name: string } {
  if (Buffer.byteLength(path) <= maxNameBytes) return { prefix: '', name: path }
  for (let cut = path.indexOf('/'); cut !== -1; cut = path.indexOf('/', cut + 1)) {
    const prefix = path.slice(0, cut)
    const name = path.slice(cut + 1)
    if (name === '' || Buffer.byteLength(prefix) > maxPrefixBytes) break
    if (Buffer.byteLength(name) <= maxNameBytes) return { prefix, name }
  }
  throw new Error(`the path /${path} is too long for an archive`)
}
