import type { Entry } from '@tollway/ratelimit/rules/match.ts'
import { UsageError } from './command.ts'

/** One descriptor as it is written in a command: KEY=VALUE[,KEY=VALUE...], a comma in a value as `\,`. */
export function parseEntries(text: string): readonly Entry[] {
  return text.split(/(?<!\\),/).map(pair => {
    const [key = '', ...rest] = pair.split('=')
    if (key === '' || rest.length === 0) throw new UsageError(`--entries ${text}: "${pair}" is not KEY=VALUE`)
    return { key, value: rest.join('=').replaceAll('\\,', ',') }
  })
}
