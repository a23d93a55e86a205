import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Cleanup, root, startTollway } from '../support/tollway.ts'

const maxCalls = 10

/**
 * Starts the same as `make run`, on free ports and in a temporary folder, and runs commands of the README.
 * Resolves with the lines of the terminal, in which the ports are the default ones.
 */
export async function recordSession(t: Cleanup): Promise<readonly string[]> {
  const manifest = readFileSync(join(root, 'examples/quickstart/checkout.yaml'), 'utf8')
  const tollway = await startTollway(t, { 'checkout.yaml': manifest }, ['--broker-replicas', '1'])
  const [make = '', curl = '', , status = ''] = commandsOfReadme()
  await tollway.ready()
  const [summary = '', ...addresses] = tollway.program.output().trim().split('\n\n')

  const curlHere = curl.replace('127.0.0.1:8080', `127.0.0.1:${tollway.httpPort}`).replace('curl', 'curl -s')
  const answers: string[] = []
  while (!answers.at(-1)?.startsWith('HTTP/1.1 429')) {
    if (answers.length === maxCalls) throw new Error(`no 429 in ${maxCalls} calls: ${answers.at(-1)}`)
    answers.push(execFileSync('bash', ['-c', curlHere], { encoding: 'utf8' }).replaceAll('\r', ''))
  }
  const statusHere = [join(root, 'operator/cli/tollway.ts'), 'status', '--state-dir', tollway.stateDir]
  const table = execFileSync(process.execPath, statusHere, { encoding: 'utf8' })

  const session = [
    ...[`$ ${make}`, summary, '', addresses[0] ?? '', ''],
    ...[`$ ${curl}`, answers[0] ?? '', ''],
    ...[`$ ${curl}`, answers.at(-1) ?? '', ''],
    ...[`$ ${status}`, table.trim()],
  ]
  return withDefaults(session.join('\n'), tollway).split('\n')
}

/** The commands of the section Start: `make run`, then what a reader types in another terminal. */
function commandsOfReadme(): readonly string[] {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const blocks = [...readme.matchAll(/```sh\n(.*?)```/gs)].slice(0, 2)
  return blocks.flatMap(([, block = '']) => block.trim().split('\n'))
}

interface Place {
  readonly folder: string
  readonly stateDir: string
}

/** Replaces the folders and the ports of this session. */
function withDefaults(text: string, { folder, stateDir }: Place): string {
  const ports: readonly (readonly [RegExp, string])[] = [
    [/(gRPC +127\.0\.0\.1:)\d+/, '8081'],
    [/(HTTP +http:\/\/127\.0\.0\.1:)\d+/, '8080'],
    [/(debug +http:\/\/127\.0\.0\.1:)\d+/, '6070'],
    [/(streams +127\.0\.0\.1:)\d+/, '8082'],
    [/(pages +http:\/\/127\.0\.0\.1:)\d+/, '6072'],
    [/(\(xDS\) +127\.0\.0\.1:)\d+/, '18000'],
    [/(operator +http:\/\/127\.0\.0\.1:)\d+/, '8000'],
    [/(console +http:\/\/127\.0\.0\.1:)\d+/, '8000'],
    [/(ratelimit-0 .*http:\/\/127\.0\.0\.1:)\d+/, '6070'],
    [/(broker-0 .*http:\/\/127\.0\.0\.1:)\d+/, '6072'],
  ]
  const placed = text.replaceAll(folder, 'examples/quickstart').replaceAll(stateDir, '.tollway')
  return ports.reduce((done, [pattern, port]) => done.replace(pattern, `$1${port}`), placed)
}
