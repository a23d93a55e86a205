import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '..')
const maxOutputBytes = 64 * 1024 * 1024

/** An image in an archive, as an entry in the list that `images/main.ts --list` writes. */
export interface ArchivedImage {
  readonly name: string
  /** The repository and the tag: `tollway/operator:dev`. */
  readonly reference: string
  /** The digest of the manifest: `sha256:…`. */
  readonly digest: string
  readonly archive: string
}

export interface ImageLoader {
  /** The command as it is shown to people: `kind load image-archive`. */
  readonly title: string
  /** Loads one image. Resolves with the reference that pods must use for it. */
  load(image: Omit<ArchivedImage, 'name'>): Promise<string>
}

/** The cluster of kubectl's current context. */
export interface KnownCluster {
  readonly context: string
  readonly nodes: readonly KubeNode[]
}

export interface KubeNode {
  readonly labels: Readonly<Record<string, string>>
  readonly providerId: string
  readonly architecture: string
}

/** An error whose message tells the user what to do. */
export class InstallError extends Error {
  override readonly name = 'InstallError'
}

/**
 * Returns the loader for a cluster: the command in LOAD_IMAGES, or a push to the registry in REGISTRY, or
 * else the program of kind, k3d, minikube or Docker Desktop.
 *
 * @throws InstallError if the cluster is none of these, or a program is missing
 */
export function selectLoader(env: NodeJS.ProcessEnv, cluster: KnownCluster): ImageLoader {
  const { LOAD_IMAGES: command = '', REGISTRY: registry = '' } = env
  if (command !== '') return commandLoader(command)
  if (registry !== '') return registryLoader(registry)
  const { context, nodes } = cluster
  const [, kind = /^kind-(.+)/.exec(context)?.[1]] =
    /^kind:\/\/[^/]*\/([^/]+)\//.exec(nodes[0]?.providerId ?? '') ?? []
  if (kind !== undefined) return kindLoader(kind)
  const k3d = /^k3d-(.+)/.exec(context)?.[1]
  if (k3d !== undefined) return programLoader('k3d', file => ['image', 'import', '--cluster', k3d, file])
  const minikube = nodes[0]?.labels['minikube.k8s.io/name'] ?? (context === 'minikube' ? context : undefined)
  if (minikube !== undefined)
    return programLoader('minikube', file => ['image', 'load', '--profile', minikube, file])
  if (context === 'docker-desktop') return programLoader('docker', file => ['load', '--input', file])
  throw new InstallError(
    `the cluster of the context ${context} is none of kind, k3d, minikube and Docker Desktop, so its nodes get ` +
      'images from a registry. Name one to which you may push: REGISTRY=registry.example.com/team make ' +
      "cluster-install. Or name a command that loads an archive into the nodes: LOAD_IMAGES='ctr -n k8s.io " +
      "images import' make cluster-install",
  )
}

/** Loads images with a command of the user; the path of the archive is appended as an argument. */
export function commandLoader(command: string): ImageLoader {
  return {
    title: command,
    async load({ archive, reference }) {
      await executeCommand('bash', '-c', `${command} "$1"`, 'bash', archive)
      return reference
    },
  }
}

export const kindLoader = (name: string) =>
  programLoader('kind', file => ['load', 'image-archive', '--name', name, file])

function programLoader(program: string, argumentsOf: (archive: string) => readonly string[]): ImageLoader {
  requireProgram(program, `load images into this cluster, or set REGISTRY or LOAD_IMAGES`)
  return {
    title: `${program} ${argumentsOf('ARCHIVE').join(' ')}`,
    async load({ archive, reference }) {
      await executeCommand(program, ...argumentsOf(archive))
      return reference
    },
  }
}

const digestDigits = 12

/**
 * Pushes images to a registry. The tag is the beginning of the digest, so that no node uses an earlier image
 * of the same name.
 */
function registryLoader(registry: string): ImageLoader {
  const pushes = hasProgram('skopeo') ? 'skopeo' : 'docker'
  if (pushes === 'docker') requireProgram('docker', 'push images to REGISTRY; skopeo does it, too')
  if (!/^[a-z0-9][a-z0-9.-]*(:\d+)?(\/[a-z0-9._-]+)*$/.test(registry)) {
    throw new InstallError(
      `REGISTRY is "${registry}"; it must be a host and a path without https:// and tag, such as ` +
        'registry.example.com/team',
    )
  }
  return {
    title: `push to ${registry} with ${pushes}`,
    async load({ archive, reference, digest }) {
      const [repository = '', tag = ''] = reference.split(':')
      const pushed = `${registry}/${repository}:${digest.replace('sha256:', '').slice(0, digestDigits)}`
      try {
        if (pushes === 'skopeo') {
          await executeCommand(
            'skopeo',
            'copy',
            '--preserve-digests',
            `oci-archive:${archive}:${tag}`,
            `docker://${pushed}`,
          )
        } else {
          await executeCommand('docker', 'load', '--input', archive)
          await executeCommand('docker', 'tag', reference, pushed)
          await executeCommand('docker', 'push', pushed)
        }
      } catch (error) {
        const login = `${pushes} login ${registry.split('/')[0]}`
        throw new InstallError(
          `${pushed} was not pushed: ${(error as Error).message}. Log in (${login}), or name a registry to which ` +
            'you may push in REGISTRY',
        )
      }
      return pushed
    },
  }
}

/**
 * Makes the images with these names in `out/images`. Without names, makes all images except those of servers
 * that are not installed on this machine.
 */
export async function makeImages(...names: readonly string[]): Promise<readonly ArchivedImage[]> {
  const list = join(root, 'out/images/images.json')
  await executeCommand(process.execPath, 'images/main.ts', '--list', list, ...names)
  return JSON.parse(readFileSync(list, 'utf8')) as readonly ArchivedImage[]
}

/**
 * Throws an InstallError if a program is not on the PATH.
 *
 * @param purpose what the program is needed for: `load images`
 */
export function requireProgram(program: string, purpose: string): void {
  if (!hasProgram(program))
    throw new InstallError(`${program} is not on the PATH; it is needed to ${purpose}`)
}

export function hasProgram(name: string): boolean {
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  return folders.some(folder => {
    try {
      accessSync(join(folder, name), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** Runs a command in the root folder, with the output of this process. Rejects if it fails. */
export async function executeCommand(program: string, ...args: readonly string[]): Promise<void> {
  const child = spawn(program, args, { cwd: root, stdio: 'inherit' })
  const [code, signal] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${code ?? signal}`)
}

/**
 * Runs a command in the root folder, and resolves with its output. Rejects with the last line of its standard
 * error.
 */
export async function readOutput(program: string, ...args: readonly string[]): Promise<string> {
  try {
    return (await promisify(execFile)(program, [...args], { cwd: root, maxBuffer: maxOutputBytes })).stdout
  } catch (error) {
    const { stderr = '', message } = error as Error & { readonly stderr?: string }
    throw new Error(stderr.trim().split('\n').at(-1) || message)
  }
}
