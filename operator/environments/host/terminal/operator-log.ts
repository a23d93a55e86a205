import { createLog, type Log, type LogLevel } from '@tollway/chassis/log/log.ts'
import type { LogLine } from '../processes/lines.ts'
import type { LogFile } from './log-file.ts'

/** The log of the operator, and of the processes that it runs. */
export interface OperatorLog extends Log {
  /** Logs a line that one of the processes wrote. */
  fromProcess(line: LogLine): void
}

/** Creates a log that writes all lines to the file, and prints those that need attention. */
export function createOperatorLog(options: {
  readonly level: LogLevel
  readonly file: LogFile
  readonly print: (text: string) => void
}): OperatorLog {
  const { level, file, print } = options
  const write = ({ source, text }: LogLine) => {
    const line = `${source.padEnd(sourceColumns)} ${text}\n`
    file.write(line)
    if (callsForAttention(source, text)) print(line)
  }
  const own = createLog({
    level,
    format: 'text',
    write: line => write({ source: 'operator', text: line.trimEnd() }),
  })
  return { ...own, fromProcess: write }
}

const sourceColumns = 'ratelimit-0'.length

/**
 * Returns true for warnings, errors, and lines without a level, such as the last output of a process that
 * crashed. Redis warns about its machine at every start; if it does not start, its output is part of that
 * error.
 */
function callsForAttention(source: string, text: string): boolean {
  return source !== 'redis' && text !== '' && !/^(time=\S+ level=|.{0,80}"level":")(debug|info)\b/.test(text)
}
