import { hashContent } from '@tollway/chassis/hash-content.ts'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'
import type { ConfigProblem } from '../rules/model.ts'
import { type ParsedYaml, parseYaml } from '../rules/yaml/parse-yaml.ts'
import { maxDocumentCharacters } from '../rules/yaml/yaml-size.ts'
import type { FoundFile, FoundFiles } from './find-files.ts'
import { decodePart, type OpenReading, type ReadingPart } from './reading.ts'

/** A longer file is rejected before it is read. No text has more characters than bytes. */
export const maxFileBytes = maxDocumentCharacters
/** The most bytes of all files together. */
export const maxTotalBytes = 64 * 1024 * 1024

/** @param hashes the known hashes of the files' contents, in order */
export function openFiles(
  { files, problems, warnings }: FoundFiles,
  hashes: readonly (string | undefined)[],
): OpenReading {
  const parts: ReadingPart[] = []
  let leftBytes = maxTotalBytes
  for (const [index, file] of files.entries()) {
    // A file that is too long is not read, and is reported as such.
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

/** Reads and parses files. The problems of the reading itself are beside those of the files. */
export function readFiles(found: FoundFiles): {
  readonly parsed: readonly ParsedYaml[]
  readonly problems: readonly ConfigProblem[]
  readonly warnings: readonly ConfigProblem[]
} {
  const { parts, problems, warnings } = openFiles(found, [])
  return { parsed: parts.map(decodePart), problems, warnings }
}
