import { appendFileSync, mkdirSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { createLog, type LogLevel } from '@tollway/chassis/log/log.ts'
import type { LogLine } from '../processes/lines.ts'

/** The log of the operator and of the processes that it runs. */
export type OperatorLog = ReturnType<typeof createOperatorLog>

/** Creates a log that writes all lines to the file, and also prints those that need attention. */
export function createOperatorLog(options: {
  readonly level: LogLevel
  readonly file: LogFile
  readonly print: (text: string) => void
}) {
  const { level, file, print } = options
  const write = ({ source, text }: LogLine) => {
    const line = `${source.padEnd(sourceColumns)} ${text}\n`
    file.write(line)
    if (needsAttention(source, text)) print(line)
  }
  const own = createLog({
    level,
    format: 'text',
    write: line => write({ source: 'operator', text: line.trimEnd() }),
  })
  return {
    ...own,
    /** Logs a line that one of the processes wrote. */
    fromProcess: write,
  }
}

const sourceColumns = 'ratelimit-0'.length

/**
 * Returns true for warnings, errors, and lines without a level, such as the last output of a process that
 * crashed. Output of Redis never needs attention: Redis warns about its machine at every start, and if it
 * does not start, the error contains its output.
 */
function needsAttention(source: string, text: string): boolean {
  return source !== 'redis' && text !== '' && !/^(time=\S+ level=|.{0,80}"level":")(debug|info)\b/.test(text)
}

/** The maximum size of one file. The present and the previous file together can have twice this size. */
const maxLogFileBytes = 16 * 1024 * 1024

type LogFile = ReturnType<typeof openLogFile>

/**
 * Opens a file to which lines are appended. A full file is renamed to `PATH.1`, which replaces the previous
 * one. If lines cannot be written, the next written line states their number and the cause.
 */
export function openLogFile(path: string, maxBytes = maxLogFileBytes) {
  let bytes: number | undefined
  let lost = 0
  let why = ''

  function append(text: string): void {
    bytes ??= readSize(path)
    const length = Buffer.byteLength(text)
    if (bytes > 0 && bytes + length > maxBytes) {
      renameSync(path, `${path}.1`)
      bytes = 0
    }
    appendFileSync(path, text, { mode: 0o600 })
    bytes += length
  }

  return {
    /** Appends a line with its line break. Never throws, because a full disk must not end the operator. */
    write(line: string): void {
      try {
        append(lost === 0 ? line : `${lost} lines could not be written: ${why}\n${line}`)
        lost = 0
      } catch (error) {
        lost += 1
        why = (error as Error).message
      }
    },
  }
}

/** Returns the size of the file. Creates the file's folder if it does not exist. */
function readSize(path: string): number {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}
