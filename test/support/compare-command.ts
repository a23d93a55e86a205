import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ComparisonReport } from '../../operator/cli/compare/comparison.ts'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { startReference } from '../differential/start-reference.ts'
import { freePorts } from './free-ports.ts'
import { startProgram } from './program.ts'
import { programs } from './programs.ts'
import { startRateLimit } from './rate-limit-process.ts'
import { runCaptured } from './run-captured.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { type Cleanup, root } from './tollway.ts'
import { startDeadlineMs } from './wait-for.ts'

/** Runs `tollway compare` in this process. */
export const compare = (...args: string[]) => runCaptured(output => runTollway(['compare', ...args], output))

export const request = (user: string, domain = 'shop') => ({
  domain,
  descriptors: [{ entries: [{ key: 'user', value: user }] }],
})

/** Writes a file with these lines; returns its path. */
export function requestsFile(lines: readonly (object | string)[]): string {
  const file = join(temporaryFolder('compare'), 'requests.jsonl')
  writeFileSync(file, lines.map(line => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'))
  return file
}

export interface ComparedService {
  readonly kind: 'reference' | 'candidate'
  /** The limit of each user: `5/day`. */
  readonly limit: string
  readonly redisPort: number
  readonly env?: Readonly<Record<string, string>>
}

/** Starts a service that limits each user of the domains `shop`, `shared` and `cut`. */
export async function startCompared(t: Cleanup, { kind, limit, redisPort, env = {} }: ComparedService) {
  const folder = temporaryFolder('compare-service')
  mkdirSync(join(folder, 'config'))
  const [count, unit] = limit.split('/')
  const rule = `{key: user, rate_limit: {unit: ${unit}, requests_per_unit: ${count}}}`
  for (const [index, domain] of ['shop', 'shared', 'cut'].entries()) {
    const text = `domain: ${domain}\ndescriptors: [${rule}]\n`
    writeFileSync(join(folder, 'config', `${index}.yaml`), text)
  }
  const all = {
    RUNTIME_ROOT: folder,
    RUNTIME_WATCH_ROOT: 'false',
    REDIS_SOCKET_TYPE: 'tcp',
    REDIS_URL: `127.0.0.1:${redisPort}`,
    EXPIRATION_JITTER_MAX_SECONDS: '0',
    USE_STATSD: 'false',
    ...env,
  }
  if (kind === 'reference') return startReference(t, all)
  const service = await startRateLimit(t, all)
  await service.serves()
  return service
}

/** The options that name both services. */
export const peersOf = (reference: { grpcPort: number }, candidate: { grpcPort: number }) => [
  '--reference',
  `127.0.0.1:${reference.grpcPort}`,
  '--candidate',
  `127.0.0.1:${candidate.grpcPort}`,
]

/** Starts the proxy of `tollway compare` as a program, with a free port in the place of that of `args`. */
export async function startCompareProxy(t: Cleanup, args: readonly string[]) {
  const [port = 0] = await freePorts(1)
  // The default timeout of the candidate's calls is too short for a machine that runs other tests.
  const listen = ['--listen', `127.0.0.1:${port}`, '-o', 'json', '--timeout', '30']
  const command = [programs.tollway, 'compare', ...args, ...listen]
  // Its signals reach its whole group, as those of a terminal do.
  const program = startProgram(process.execPath, command, { detached: true })
  t.after(async () => {
    await program.end('SIGKILL')
  })
  await program.said('listening on 127.0.0.1', startDeadlineMs)
  return {
    port,
    program,
    async end() {
      const code = await program.end('SIGTERM')
      const output = program.output()
      const report = JSON.parse(output.slice(output.indexOf('{\n')))
      return { code, report: report as ComparisonReport }
    },
  }
}

/**
 * Returns the arguments of each command of the page of the documentation, with other words in the place of
 * some of its words. `calls.jsonl` has the lines of the page.
 */
export function pageCommands(others: Readonly<Record<string, string>>): readonly (readonly string[])[] {
  const page = readFileSync(join(root, 'docs/tasks/replace-a-rate-limit-service.md'), 'utf8')
  const [, lines = ''] = /```json\n(.*?)```/s.exec(page) ?? []
  const replaced = { 'calls.jsonl': requestsFile([lines]), ...others }
  const word = (text: string) => Object.entries(replaced).find(([name]) => name === text)?.[1] ?? text
  return [...page.matchAll(/npx tollway compare (.*?)\n```/gs)].map(([, text = '']) =>
    text.split(/[\s\\]+/).map(word),
  )
}
