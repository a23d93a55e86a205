/** `make e2e`: makes the images, loads them into a cluster, and runs the tests of this folder there. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { run as startTests } from 'node:test'
import { spec } from 'node:test/reporters'
import { parseArgs } from 'node:util'
import {
  commandLoader,
  executeCommand,
  type ImageLoader,
  kindLoader,
  makeImages,
  readOutput,
} from '../../images/load-images.ts'
import { findProgram } from '../support/require-server.ts'
import { root } from '../support/tollway.ts'
import { makePreviousImages } from '../versions/previous-images.ts'
import { missingPreviousRelease } from '../versions/previous-release.ts'
import { clearFigures, tableOfFigures } from './figures.ts'

/** The files that need no image. They run while images are made and loaded. */
const beforeImages = ['first-install']
/**
 * The stages in their order; the files of one stage run at the same time. All files share one release: each
 * expects the values that `ensureInstalled` installs, and the first one installs them. A file of a later
 * stage may stop processes without which an earlier file would fail.
 */
const stages: readonly (readonly string[])[] = [
  ['install', 'images', 'drop-in'],
  ['rate-limits', 'payments', 'streams'],
  ['kubectl-tollway'],
  ['console'],
  ['scale'],
  ['uninstall'],
  ['failed-install'],
  ['cluster-install'],
  ['upgrade'],
]
/** The stages that `--short` leaves out. */
const longStages: readonly string[] = ['scale', 'failed-install', 'cluster-install']

const help = `Runs the tests of test/e2e in a cluster: Tollway is installed, used, broken and removed there.

  run.ts [--short] [--keep] [TEST_FILE ...]

The cluster is that of KUBECONFIG; without it one is made by kind, where Docker answers, and deleted
afterwards. Where there is neither, that is said, and the tests are skipped (with REQUIRE_SERVERS=1 they
fail).

Options:
  --short       leave out ${longStages.join(', ')}, and measure 50 changes
  --keep        keep the release, and the cluster that was made by kind
  -h, --help    this text

Environment:
  KUBECONFIG    the cluster
  LOAD_IMAGES   the command that loads an image into it; the archive's path is added. Without it the cluster
                of KUBECONFIG must have the images of out/images (tollway/operator:dev, ...) already
  E2E_CHANGES   how many changes are measured (default 200)
  E2E_DRAIN_DELAY
                how long pods that end accept calls (default: that of the chart, 35s). 10s makes rollouts
                shorter where the name servers of the cluster keep an answer for at most 5 s
  E2E_MIXED_VERSIONS=1
                runs pods of one version under the operator of the other, too (2 minutes more)

The tests call pods by their addresses, so these must be reached from here.
Exit code: 0 when the tests passed or were skipped, 1 when something failed, 2 for options that are none.

Examples:
  make e2e
  make e2e ARGS=--short
  make e2e ARGS='--keep test/e2e/images.test.ts'
  KUBECONFIG=~/.kube/config LOAD_IMAGES='kind load image-archive --name dev' make e2e
  KUBECONFIG=/etc/kubernetes/admin.conf LOAD_IMAGES='ctr -n k8s.io images import' make e2e
`

const name = 'tollway-e2e'

interface Cluster {
  readonly kubeconfig: string
  /** Undefined if the nodes have the images already. */
  readonly loader: ImageLoader | undefined
  remove(): Promise<void>
}

async function main(args: readonly string[]): Promise<number> {
  let options: Options
  try {
    options = readOptions(args)
  } catch (error) {
    say(`${(error as Error).message}\n--help shows how it is called`)
    return 2
  }
  if (options.help) {
    process.stdout.write(help)
    return 0
  }
  const missing = await whatIsMissing(process.env)
  if (missing !== undefined) {
    say(`SKIPPED: no test ran in a cluster: ${missing}`)
    return process.env['REQUIRE_SERVERS'] === '1' ? 1 : 0
  }
  // The tests start about a hundred programs of Node. Without a cache each one compiles for half a second.
  process.env['NODE_COMPILE_CACHE'] ??= join(root, 'out/compile-cache')
  // Ctrl-C ends the running program, and then everything below it is cleaned up.
  process.on('SIGINT', () => {})
  try {
    await runIn(options)
    return 0
  } catch (error) {
    say((error as Error).message)
    return 1
  }
}

interface Options {
  readonly help: boolean
  readonly short: boolean
  readonly keep: boolean
  readonly tests: readonly string[]
}

function readOptions(args: readonly string[]): Options {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      short: { type: 'boolean', default: false },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  return { ...values, tests: positionals }
}

/** Returns the reason why no test can run; undefined when they can. */
async function whatIsMissing(env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const needed = ['kubectl', 'helm', ...((env['KUBECONFIG'] ?? '') === '' ? ['docker', 'kind'] : [])]
  const missing = needed.filter(program => findProgram(program) === undefined)
  const way = 'set KUBECONFIG to that of a cluster, or have Docker and kind'
  if (missing.length > 0) return `${missing.join(' and ')} not found on the PATH; ${way}`
  if (!needed.includes('docker')) return undefined
  const answers = await succeeds('docker', 'info')
  return answers ? undefined : `Docker does not answer (docker info); ${way}`
}

async function runIn({ short, keep, tests }: Options): Promise<void> {
  const given = process.env['KUBECONFIG'] ?? ''
  const cluster =
    given === '' ? await makeCluster(keep) : givenCluster(given, process.env['LOAD_IMAGES'] ?? '')
  process.env['KUBECONFIG'] = cluster.kubeconfig
  if (short) process.env['E2E_CHANGES'] ??= '50'
  clearFigures()
  try {
    if (tests.length === 0) await runStages(cluster, short)
    else {
      await loadImages(cluster)
      if (tests.some(file => /upgrade\.test\.ts$/.test(file))) await loadPreviousImages(cluster)
      await runTests(tests, 1)
    }
  } finally {
    say(`\n${tableOfFigures()}`)
    await removeRelease(keep)
    await cluster.remove()
  }
}

async function runStages(cluster: Cluster, short: boolean): Promise<void> {
  const problems: Error[] = []
  const times: string[] = []
  const timed = async (what: string, step: Promise<void>) => {
    const beginMs = performance.now()
    await step.catch((error: Error) => problems.push(error))
    times.push(`${what.padEnd(40)}${((performance.now() - beginMs) / 1000).toFixed(0).padStart(4)} s\n`)
  }
  const pathsOf = (names: readonly string[]) => names.map(name => `test/e2e/${name}.test.ts`)
  await Promise.all([
    timed('images', loadImages(cluster)),
    timed(beforeImages.join(' '), runTests(pathsOf(beforeImages), 1)),
  ])
  const previous = timed('images of the previous release, meanwhile', loadPreviousImages(cluster))
  for (const stage of stages) {
    if (short && stage.some(name => longStages.includes(name))) continue
    if (stage.includes('upgrade')) await previous
    await timed(stage.join(' '), runTests(pathsOf(stage), stage.length))
  }
  say(`\n${times.join('')}`)
  if (problems.length > 0) throw new Error(problems.map(({ message }) => message).join('\n'))
}

/** Runs these files. Rejects with the errors of the tests that failed, which a long output may hide. */
async function runTests(files: readonly string[], concurrency: number): Promise<void> {
  const failures: string[] = []
  const events = startTests({ files: files.map(file => join(root, file)), concurrency })
  events.on('test:fail', ({ file = '', name, details: { error } }) => {
    const { failureType }: Error & { readonly failureType?: string } = error
    const { message } = error.cause instanceof Error ? error.cause : error
    if (failureType !== 'subtestsFailed') failures.push(`${relative(root, file)} > ${name}: ${message}`)
  })
  for await (const text of events.compose(new spec())) process.stdout.write(text)
  if (failures.length > 0) throw new Error(failures.join('\n'))
}

async function loadImages({ loader }: Cluster): Promise<void> {
  for (const image of await makeImages()) await loader?.load(image)
}

async function loadPreviousImages({ loader }: Cluster): Promise<void> {
  if (missingPreviousRelease() !== false) return
  for (const archive of await makePreviousImages()) await loader?.load({ archive, reference: '', digest: '' })
}

/** Removes what single files of tests leave. */
async function removeRelease(keep: boolean): Promise<void> {
  if (keep) return
  await executeCommand('helm', 'uninstall', 'tollway', '-n', 'tollway-system', '--ignore-not-found', '--wait')
  await executeCommand('kubectl', 'delete', 'namespace', 'databases', '--ignore-not-found', '--wait=false')
}

function givenCluster(kubeconfig: string, loadCommand: string): Cluster {
  if (loadCommand === '')
    say('LOAD_IMAGES is not set: the cluster must have the images of out/images already')
  return {
    kubeconfig,
    loader: loadCommand === '' ? undefined : commandLoader(loadCommand),
    async remove() {},
  }
}

async function makeCluster(keep: boolean): Promise<Cluster> {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`))
  const kubeconfig = join(folder, 'kubeconfig')
  const named = ['--name', name]
  const remove = async () => {
    if (keep) {
      const command = `kind delete cluster --name ${name}`
      say(`the cluster is kept: KUBECONFIG=${kubeconfig}; remove it: ${command}`)
      return
    }
    await executeCommand('kind', 'delete', 'cluster', ...named)
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const config = join(import.meta.dirname, 'kind.yaml')
    await executeCommand(
      'kind',
      'create',
      'cluster',
      ...named,
      '--config',
      config,
      '--kubeconfig',
      kubeconfig,
      '--wait',
      '120s',
    )
    await routeToPods(kubeconfig)
  } catch (error) {
    await remove()
    throw error
  }
  return { kubeconfig, remove, loader: kindLoader(name) }
}

/**
 * Routes the addresses of pods, which only the nodes know, to this machine, because the tests call pods. A
 * container of the nodes' own image sets the route, which needs no root on this machine.
 */
async function routeToPods(kubeconfig: string): Promise<void> {
  const image = (
    await readOutput('docker', 'inspect', '--format', '{{.Image}}', `${name}-control-plane`)
  ).trim()
  const fields = '{.spec.podCIDR} {.status.addresses[?(@.type=="InternalIP")].address}{"\\n"}'
  const template = `jsonpath={range .items[*]}${fields}{end}`
  const nodes = await readOutput('kubectl', '--kubeconfig', kubeconfig, 'get', 'nodes', '-o', template)
  for (const node of nodes.trim().split('\n')) {
    const [cidr = '', address = ''] = node.split(' ')
    const route = ['route', 'replace', cidr, 'via', address]
    await executeCommand(
      'docker',
      'run',
      '--rm',
      '--privileged',
      '--network=host',
      '--entrypoint=ip',
      image,
      ...route,
    )
  }
}

async function succeeds(program: string, ...args: readonly string[]): Promise<boolean> {
  const child = spawn(program, args, { stdio: 'ignore' })
  const [code] = await once(child, 'exit')
  return code === 0
}

const say = (text: string) => process.stderr.write(`${text}\n`)

process.exitCode = await main(process.argv.slice(2))
