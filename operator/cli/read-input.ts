import { UsageError } from '@tollway/chassis/command-line/command.ts'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'

/** @throws Error with the option, the path and the cause, without the content */
export function readInput(option: string, path: string, maxBytes: number): string {
  try {
    return readBoundedFile(path, maxBytes).toString('utf8')
  } catch (error) {
    throw new Error(`${option} ${path}: ${describeFileError(error)}`)
  }
}

const maxTokenFileBytes = 64 * 1024

/**
 * Reads the tokens of a file: its lines, without empty lines and comments (`#`), as in ADMIN_TOKEN_FILE.
 *
 * @throws Error without the content of the file
 */
export function readTokens(path: string): readonly [string, ...string[]] {
  const lines = readInput('--token-file', path, maxTokenFileBytes).split('\n')
  const [first, ...others] = lines
    .map(line => line.trim())
    .filter(line => line !== '' && !line.startsWith('#'))
  if (first === undefined) throw new UsageError(`--token-file ${path}: the file has no token`)
  if ([first, ...others].every(token => /^[\x21-\x7e]+$/.test(token))) return [first, ...others]
  throw new UsageError(
    `--token-file ${path}: tokens must consist of printable ASCII characters without spaces`,
  )
}

/** @throws Error if the file does not have exactly one token, without the content of the file */
export function readToken(path: string): string {
  const [token, ...others] = readTokens(path)
  if (others.length > 0) throw new UsageError(`--token-file ${path}: the file must contain exactly one token`)
  return token
}

/**
 * Parses the URL of a server, which has neither credentials nor a query.
 *
 * @throws UsageError without the credentials of a text that has some
 */
export function parseServerUrl(option: string, text: string): URL {
  const url = URL.parse(text)
  const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:'
  if (url !== null && isHttp && url.search + url.hash + url.username + url.password === '') return url
  const found = text.includes('@') ? '' : ` ${text}`
  throw new UsageError(`${option}${found}: must be http://HOST:PORT or https://HOST:PORT`)
}

/** Returns `no such file`, or the message of the error. */
export function describeFileError(error: unknown): string {
  const { code, message, cause } = error as NodeJS.ErrnoException
  const isMissing = code === 'ENOENT' || (cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT'
  return isMissing ? 'no such file' : message
}
