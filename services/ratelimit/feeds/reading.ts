import type { DomainConfig, Problem } from '../rules/config.ts'
import { type ValidateOptions, validate } from '../rules/validate.ts'
import type { FoundFiles } from './find-files.ts'
import type { Resources } from './read-resources.ts'

/** A whole configuration that is still to be read, from files or a response. It may go to another thread. */
export type Reading = ({ readonly from: 'files' } & FoundFiles) | ({ readonly from: 'response' } & Resources)

/** What was read and judged. The configurations are of use only when there is no problem. */
export interface Judged {
  readonly configs: readonly DomainConfig[]
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/** How much there is to read. */
export function bytesOf(reading: Reading): number {
  const sizes =
    reading.from === 'files'
      ? reading.files.map(({ bytes }) => bytes)
      : reading.resources.map(({ value }) => value.length)
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** Reads and judges the whole; what cannot be read is not judged. It never rejects for what it reads. */
export async function readAndJudge(reading: Reading, options: ValidateOptions): Promise<Judged> {
  const read = await readForm(reading)
  if (read.problems.length > 0) return read
  const { problems, warnings } = validate(read.configs, options)
  return { configs: read.configs, problems, warnings: [...read.warnings, ...warnings] }
}

/** A thread loads only what it needs: the messages of the feed take as long to load as YAML. */
async function readForm(reading: Reading): Promise<Judged> {
  if (reading.from === 'files') return (await import('./read-files.ts')).readFiles(reading)
  return (await import('./read-resources.ts')).readResources(reading)
}
