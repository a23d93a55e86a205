import { StringDecoder } from 'node:string_decoder'

export interface LogLine {
  /** The name of the process: `ratelimit-0`. */
  readonly source: string
  readonly text: string
}

/**
 * Splits UTF-8 bytes, which arrive in pieces of any size, into lines. Of each line, `maxLength` UTF-16 code
 * units are kept; the number of dropped ones is appended. So a program that writes no line breaks fills no
 * memory.
 */
export function splitLines(maxLength: number, onLine: (text: string) => void) {
  const decoder = new StringDecoder('utf8')
  let line = ''
  let dropped = 0

  const append = (text: string) => {
    const kept = text.slice(0, maxLength - line.length)
    line += kept
    dropped += text.length - kept.length
  }
  const finish = () => {
    const text = line.endsWith('\r') ? line.slice(0, -1) : line
    onLine(dropped === 0 ? text : `${text} … (${dropped} more characters)`)
    line = ''
    dropped = 0
  }
  const add = (text: string) => {
    const [first = '', ...others] = text.split('\n')
    append(first)
    for (const other of others) {
      finish()
      append(other)
    }
  }
  return {
    write: (chunk: Buffer) => add(decoder.write(chunk)),
    /** Passes on the text after the last line break. */
    end(): void {
      add(decoder.end())
      if (line !== '') finish()
    },
  }
}
