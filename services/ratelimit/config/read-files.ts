import { hashContent } from '@tollway/chassis/hash-content.ts'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'
import type { ConfigProblem } from '../rules/model.ts'
import { type ParsedYaml, parseYaml } from '../rules/yaml/parse-yaml.ts'
import { maxDocumentCharacters } from '../rules/yaml/yaml-size.ts'
import type { FoundFile, FoundFiles } from './find-files.ts'
import { decodePart, type OpenReading, type ReadingPart } from './reading.ts'

/**
 * A file of more bytes is rejected before it is read. A text never has more characters than bytes, so a file
 * of at most this size does not exceed `maxDocumentCharacters`.
 */
export const maxFileBytes = maxDocumentCharacters
/** All files together may have at most this many bytes. */
export const maxTotalBytes = 64 * 1024 * 1024

/** @param hashes the hash of each file's content, in order; undefined where it is not known */
export function openFiles(
  { files, problems, warnings }: FoundFiles,
  hashes: readonly (string | undefined)[],
): OpenReading {
  const parts: ReadingPart[] = []
  let leftBytes = maxTotalBytes
  for (const [index, file] of files.entries()) {
    // A file above `maxFileBytes` is never read, so it does not count here. Its part reports the problem.
    if (file.bytes <= maxFileBytes) leftBytes -= file.bytes
    if (leftBytes < 0) {
      parts.push(toRejectedPart(file))
      break
    }
    parts.push(toPart(file, hashes[index]))
  }
  return { parts, problems, warnings }
}

function toPart({ path, key, bytes }: FoundFile, hash: string | undefined): ReadingPart {
  return {
    source: key,
    bytes,
    hash,
    read() {
      const content = readBoundedFile(path, maxFileBytes)
      const found = hashContent(content)
      if (hash !== undefined && found !== hash) throw new Error('the file changed while it was read')
      return {
        hash: found,
        decode: () => parseYaml(key, new TextDecoder('utf-8', { fatal: true }).decode(content)),
      }
    },
  }
}

function toRejectedPart({ key }: FoundFile): ReadingPart {
  return {
    source: key,
    bytes: 0,
    hash: undefined,
    read() {
      throw new Error(`the files up to this one have more than ${maxTotalBytes} bytes together`)
    },
  }
}

/**
 * Reads the files. `problems` and `warnings` come from finding the files; the problems of each file are in
 * `parsed`.
 */
export function readFiles(found: FoundFiles): {
  readonly parsed: readonly ParsedYaml[]
  readonly problems: readonly ConfigProblem[]
  readonly warnings: readonly ConfigProblem[]
} {
  const { parts, problems, warnings } = openFiles(found, [])
  return { parsed: parts.map(decodePart), problems, warnings }
}
