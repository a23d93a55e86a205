import { UsageError } from '@tollway/chassis/command-line/command.ts'
import { requireOption } from '@tollway/chassis/command-line/parse-options.ts'
import type { DescriptorEntry } from '@tollway/ratelimit/rules/match.ts'
import * as written from '../api/entries.ts'

/** @throws UsageError if there is no descriptor, or one is invalid */
export function requireEntries(texts: readonly string[]): readonly (readonly DescriptorEntry[])[] {
  return requireOption('--entries KEY=VALUE', texts.length === 0 ? undefined : texts).map(text =>
    parseEntriesOption(text),
  )
}

/** Parses the syntax of the console. @throws UsageError with the text and the cause */
export function parseEntriesOption(text: string, option = 'entries'): readonly DescriptorEntry[] {
  const entries = written.parseDescriptorEntries(text)
  if (typeof entries === 'string') throw new UsageError(`--${option} ${text}: ${entries}`)
  return entries
}
