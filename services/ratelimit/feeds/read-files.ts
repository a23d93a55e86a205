import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'
import type { DomainConfig, Problem } from '../rules/config.ts'
import { parseYaml } from '../rules/parse-yaml.ts'
import { maxDocumentCharacters } from '../rules/yaml-size.ts'
import type { FoundFile, FoundFiles } from './find-files.ts'

/** A longer file is refused before it is read. No text has more characters than bytes. */
export const maxFileBytes = maxDocumentCharacters
/** Of all files together. */
export const maxTotalBytes = 64 * 1024 * 1024

/**
 * Reads what was found. Configurations are of use only when there is no problem; whether what they say makes
 * sense is for `validate`.
 */
export function readFiles({ files, problems: unfound, warnings: unread }: FoundFiles): {
  readonly configs: readonly DomainConfig[]
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
} {
  const configs: DomainConfig[] = []
  const problems = [...unfound]
  const warnings = [...unread]
  let leftBytes = maxTotalBytes
  for (const file of files) {
    // One that is too long by itself is not read, and is told as such.
    if (file.bytes <= maxFileBytes) leftBytes -= file.bytes
    if (leftBytes < 0) {
      const message = `the files up to this one have more than ${maxTotalBytes} bytes together`
      problems.push({ source: file.key, path: '', message })
      break
    }
    const parsed = parseFile(file)
    if ('problems' in parsed) problems.push(...parsed.problems)
    else {
      configs.push(parsed.value)
      warnings.push(...parsed.warnings)
    }
  }
  return { configs, problems, warnings }
}

function parseFile({ path, key }: FoundFile): ReturnType<typeof parseYaml> {
  try {
    const bytes = readBoundedFile(path, maxFileBytes)
    return parseYaml(key, new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    return { problems: [{ source: key, path: '', message: (error as Error).message }] }
  }
}
