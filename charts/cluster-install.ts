import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  type ArchivedImage,
  hasProgram,
  InstallError,
  type KnownCluster,
  type KubeNode,
  makeImages,
  readOutput,
  requireProgram,
  selectLoader,
} from '../images/load-images.ts'
import { architecture } from '../images/make-image.ts'

const help = `Makes the images of this checkout, brings them to the nodes of a cluster, and installs Tollway there.

  cluster-install.ts [OPTION_OF_HELM ...]

The cluster is that of the current context of kubectl. Images are loaded into kind, k3d, minikube and Docker
Desktop. Each run upgrades the release, keeps the values of earlier runs, and replaces the pods whose images have
changed.

Environment:
  REGISTRY      the registry to which the images are pushed, for all other clusters: registry.example.com/team
  LOAD_IMAGES   or the command that loads an archive into the nodes; the path of the archive is added
  NAMESPACE     the namespace of the release (default tollway-system)
  RELEASE       its name (default tollway)

The first run enables the bundled Redis, unless an option of helm names another one. Its image is made of the
redis-server of this machine, if there is one; else the nodes pull it.
Exit code: 0 when everything is ready, 1 when something failed.

Examples:
  make cluster-install
  make cluster-install ARGS='--set broker.enabled=true'
  make cluster-install ARGS='--values values.yaml --timeout 10m'
  REGISTRY=registry.example.com/team make cluster-install
`

const namespace = process.env['NAMESPACE'] || 'tollway-system'
const release = process.env['RELEASE'] || 'tollway'
const connectTimeout = '--request-timeout=10s'
const pollMs = 2_000

/** For each image, the paths of the chart values with its name and with the annotations of its pods. */
const images = {
  operator: { image: ['operator', 'image'], annotations: ['operator', 'annotations'] },
  ratelimit: { image: ['rateLimit', 'pods', 'image'], annotations: ['rateLimit', 'pods', 'annotations'] },
  broker: { image: ['broker', 'pods', 'image'], annotations: ['broker', 'pods', 'annotations'] },
  payments: { image: ['payments', 'pods', 'image'], annotations: ['payments', 'pods', 'annotations'] },
  redis: { image: ['redis', 'bundled', 'image'], annotations: undefined },
} as const

async function main(args: readonly string[]): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(help)
    return 0
  }
  try {
    await install(args)
    return 0
  } catch (error) {
    say(`\ncluster-install: ${(error as Error).message}`)
    return 1
  }
}

async function install(args: readonly string[]): Promise<void> {
  requireProgram('kubectl', 'reach the cluster: https://kubernetes.io/docs/tasks/tools')
  requireProgram('helm', 'install the chart: https://helm.sh/docs/intro/install')
  const cluster = await findCluster()
  const loader = selectLoader(process.env, cluster)
  step(1, `the cluster of the context ${cluster.context}; images get there by: ${loader.title}`)
  step(2, 'make the images')
  const redis = hasProgram('redis-server') ? ['redis'] : []
  const made = await makeImages('operator', 'ratelimit', 'broker', 'payments', ...redis)
  step(3, 'bring the images to the nodes')
  const loaded = new Map<ArchivedImage, string>()
  for (const image of made) {
    loaded.set(image, await loader.load(image))
    say(`  ${loaded.get(image)} (${loaded.size} of ${made.length})`)
  }
  step(
    4,
    `install the chart as ${release} in the namespace ${namespace}; helm waits until everything is ready`,
  )
  await upgrade({ ...toValues(loaded), ...(await redisValues(loaded, args)) }, args)
  say(nextSteps(cluster))
}

/**
 * Returns the cluster of the current context.
 *
 * @throws InstallError if there is none, if it does not answer, or if its nodes cannot run the images
 */
async function findCluster(): Promise<KnownCluster> {
  const create = 'create a cluster, for example with: kind create cluster'
  const context = await readOutput('kubectl', 'config', 'current-context').then(
    text => text.trim(),
    () => {
      throw new InstallError(`the kubeconfig has no current context; set KUBECONFIG, or ${create}`)
    },
  )
  const answer = await readOutput('kubectl', connectTimeout, 'get', 'nodes', '-o', 'json').catch(
    ({ message }: Error) => {
      const advice = 'start the cluster, or choose another one with: kubectl config use-context NAME'
      throw new InstallError(`the cluster of the context ${context} does not answer: ${message}; ${advice}`)
    },
  )
  const { items } = JSON.parse(answer) as { readonly items: readonly NodeObject[] }
  const nodes = items.map(
    ({ metadata, spec, status }): KubeNode => ({
      labels: metadata.labels ?? {},
      providerId: spec.providerID ?? '',
      architecture: status.nodeInfo.architecture,
    }),
  )
  const other = nodes.find(node => node.architecture !== architecture)
  if (other !== undefined) {
    throw new InstallError(
      `the cluster of the context ${context} has nodes of ${other.architecture}, and this machine makes images for ` +
        `${architecture}; run the command on a machine of ${other.architecture}`,
    )
  }
  return { context, nodes }
}

interface NodeObject {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> }
  readonly spec: { readonly providerID?: string }
  readonly status: { readonly nodeInfo: { readonly architecture: string } }
}

type Values = { readonly [name: string]: Values | string | boolean }

/**
 * Returns the chart values with the names of the images. The digests become annotations of the pods, so that
 * pods are replaced when an image has a new content under the same name.
 */
function toValues(loaded: ReadonlyMap<ArchivedImage, string>): Values {
  let values: Values = {}
  for (const [{ name, digest }, reference] of loaded) {
    const { image, annotations } = images[name as keyof typeof images]
    values = withValue(values, image, reference)
    if (annotations !== undefined) values = withValue(values, [...annotations, 'tollway.dev/image'], digest)
  }
  return values
}

function withValue(
  values: Values,
  [first = '', ...rest]: readonly string[],
  value: Values | string | boolean,
): Values {
  const below = values[first]
  const inner = typeof below === 'object' ? below : {}
  return { ...values, [first]: rest.length === 0 ? value : withValue(inner, rest, value) }
}

/**
 * Returns the values for the bundled Redis, which the first release has unless the options name another
 * Redis.
 */
async function redisValues(
  loaded: ReadonlyMap<ArchivedImage, string>,
  args: readonly string[],
): Promise<{ readonly redis?: Values }> {
  const bundled = toValues(loaded)['redis']
  const isNamed = args.some(arg => /\bredis\./.test(arg))
  const isFirst = await readOutput('helm', 'get', 'values', release, '--namespace', namespace).then(
    () => false,
    () => true,
  )
  if (isNamed || !isFirst) return {}
  return {
    redis: withValue({ redis: bundled ?? {} }, ['redis', 'bundled', 'enabled'], true)['redis'] as Values,
  }
}

/** Runs helm with the values on its standard input, and meanwhile prints how many pods are ready. */
async function upgrade(values: Values, args: readonly string[]): Promise<void> {
  const command = ['upgrade', '--install', release, 'charts/tollway', '--namespace', namespace]
  const options = [
    '--create-namespace',
    '--reset-then-reuse-values',
    '--hide-notes',
    '--values',
    '-',
    ...args,
  ]
  const helm = spawn('helm', [...command, ...options], { stdio: ['pipe', 'ignore', 'inherit'] })
  helm.stdin.end(JSON.stringify(values))
  const progress = setInterval(createProgress(), pollMs)
  const [code, signal] = await once(helm, 'exit')
  clearInterval(progress)
  if (code === 0) return
  throw new InstallError(
    `helm ended with ${code ?? signal}; the lines above have the cause. The release stays as it is: mend the cause and ` +
      `run the command again, or remove it: helm uninstall ${release} --namespace ${namespace} --no-hooks`,
  )
}

/** Returns a function that prints how many pods are ready, if that has changed. */
function createProgress(): () => void {
  let printed = ''
  const columns = '{range .items[*]}{.metadata.name} {.status.readyReplicas}/{.spec.replicas}, {end}'
  return () => {
    readOutput(
      'kubectl',
      connectTimeout,
      '--namespace',
      namespace,
      'get',
      'deployments',
      '-o',
      `jsonpath=${columns}`,
    ).then(
      text => {
        const line = text.replaceAll(' /', ' 0/').replace(/, $/, '')
        if (line !== '' && line !== printed) say(`  ready: ${line}`)
        printed = line
      },
      // A cluster that does not answer is reported by helm.
      () => {},
    )
  }
}

const nextSteps = ({ context }: KnownCluster) => `
Tollway runs in the namespace ${namespace} of the context ${context}. See that it works:

  helm test ${release} --namespace ${namespace} --logs

Then apply limits, and call them:

  kubectl create namespace shop
  kubectl apply -f examples/quickstart
  kubectl get ratelimitconfigs --all-namespaces
  kubectl --namespace ${namespace} port-forward service/${release}-ratelimit-http 18080:8080 &
  curl -i http://127.0.0.1:18080/json -d '{"domain":"checkout","descriptors":[{"entries":[{"key":"user","value":"alice"}]}]}'

The command upgrades the release when you run it again; helm uninstall ${release} --namespace ${namespace} removes it.`

const step = (number: number, text: string) => say(`${number}/4 ${text}`)
const say = (text: string) => process.stderr.write(`${text}\n`)

process.exitCode = await main(process.argv.slice(2))
