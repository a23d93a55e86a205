import { type ChildProcess, type ExecFileException, execFile } from 'node:child_process'
import { delimiter, join } from 'node:path'
import { root } from '../support/tollway.ts'

const programs = join(root, 'node_modules/.bin')
const maxOutputBytes = 16 * 1024 * 1024
const deadlineMs = 120_000

/** What a command printed, and its exit code. */
export interface Said {
  readonly code: number
  readonly out: string
  readonly error: string
}

export interface Running {
  readonly process: ChildProcess
  readonly ended: Promise<Said>
}

/** Starts `kubectl tollway` as a user does: kubectl finds the program on the PATH. */
export function startTollway(args: readonly string[], kubeconfig?: string): Running {
  const env = {
    ...process.env,
    PATH: `${programs}${delimiter}${process.env['PATH']}`,
    ...(kubeconfig !== undefined && { KUBECONFIG: kubeconfig }),
  }
  const { promise: ended, resolve } = Promise.withResolvers<Said>()
  const options = { env, maxBuffer: maxOutputBytes, timeout: deadlineMs }
  const child = execFile('kubectl', ['tollway', ...args], options, (problem, out, error) =>
    resolve({ code: codeOf(problem), out, error }),
  )
  return { process: child, ended }
}

/** Runs it; resolves with what it printed. */
export const tollway = (args: readonly string[], kubeconfig?: string) => startTollway(args, kubeconfig).ended

/** -1 for a command that a signal ended. */
const codeOf = (problem: ExecFileException | null) =>
  problem === null ? 0 : typeof problem.code === 'number' ? problem.code : -1
