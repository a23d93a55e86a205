import type { Entry } from '@tollway/ratelimit/rules/match.ts'
import * as written from '../console/browser/data/entries.ts'
import { UsageError } from './command.ts'

/**
 * Reads one descriptor as it is written in a command, in the syntax of the console.
 *
 * @throws UsageError that names the text
 */
export function parseEntries(text: string): readonly Entry[] {
  const entries = written.parseEntries(text)
  if (typeof entries === 'string') throw new UsageError(`--entries ${text}: ${entries}`)
  return entries
}
