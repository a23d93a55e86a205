import type { RequestOptions } from 'node:https'
import { isIPv6 } from 'node:net'
import { join } from 'node:path'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'

export interface KubeApiAccess {
  readonly server: URL
  /** The namespace of the kubeconfig's context, or of this pod. */
  readonly namespace: string
  /**
   * Returns the credentials for one request. Called for each request, so that rotated credentials are used at
   * once.
   */
  credentials(): Promise<KubeCredentials>
}

export interface KubeCredentials {
  readonly headers: Readonly<Record<string, string>>
  readonly tls: Pick<RequestOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized' | 'auth'>
  /** The agent for an HTTP proxy; left out without a proxy. */
  readonly agent?: NonNullable<RequestOptions['agent']>
}

const serviceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount'
const maxCredentialBytes = 1024 * 1024

/**
 * Finds the API server: by KUBECONFIG; else, in a pod, by its service account; else by `~/.kube/config`.
 *
 * @throws Error that names what is missing, and never contains a credential
 */
export function accessFromEnvironment(env: NodeJS.ProcessEnv): Promise<KubeApiAccess> {
  const named = env['KUBECONFIG'] ?? ''
  if (named === '' && (env['KUBERNETES_SERVICE_HOST'] ?? '') !== '')
    return Promise.resolve(accessInCluster(env))
  return accessFromKubeconfig(named === '' ? join(env['HOME'] ?? '/', '.kube', 'config') : named)
}

/** Returns access with the service account of this pod. The token and the CA are read for each request. */
export function accessInCluster(env: NodeJS.ProcessEnv, folder = serviceAccountFolder): KubeApiAccess {
  const host = env['KUBERNETES_SERVICE_HOST'] ?? ''
  const port = env['KUBERNETES_SERVICE_PORT'] ?? '443'
  if (host === '') throw new Error('KUBERNETES_SERVICE_HOST is empty: this process is not a pod of a cluster')
  const read = (name: string) => readCredential(join(folder, name))
  return {
    server: new URL(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`),
    namespace: read('namespace').toString().trim(),
    async credentials() {
      const token = read('token').toString().trim()
      if (token === '') throw new Error(`${join(folder, 'token')} is empty`)
      return { headers: { authorization: `Bearer ${token}` }, tls: { ca: read('ca.crt') } }
    },
  }
}

function readCredential(path: string): Buffer {
  try {
    return readBoundedFile(path, maxCredentialBytes)
  } catch (error) {
    throw new Error(`${path}: ${(error as Error).message}`)
  }
}

/**
 * Returns access by a kubeconfig file, with all kinds of credentials (certificates, tokens, exec plugins).
 * The library for these is loaded only here, because it would waste memory in a cluster.
 *
 * @param context the context to use; the file's current context when left out
 */
export async function accessFromKubeconfig(path: string, context?: string): Promise<KubeApiAccess> {
  const { createKubeConfig } = await import('./kube-config.ts')
  const config = createKubeConfig()
  try {
    config.loadFromFile(path)
  } catch (error) {
    // The message of a YAML error quotes nearby lines, which may contain a token.
    const { reason, code, message } = error as { reason?: string; code?: string; message: string }
    throw new Error(`the kubeconfig ${path} cannot be read: ${reason ?? code ?? message}`)
  }
  if (context !== undefined) config.setCurrentContext(context)
  const cluster = config.getCurrentCluster()
  if (cluster === null) {
    const known = config.getContexts().map(({ name }) => name)
    throw new Error(
      `the kubeconfig ${path} has no cluster for the context "${config.getCurrentContext()}"; ` +
        `it has the contexts ${known.join(', ') || '(none)'}`,
    )
  }
  return {
    server: new URL(cluster.server),
    namespace: config.getContextObject(config.getCurrentContext())?.namespace ?? 'default',
    async credentials() {
      const options: RequestOptions = {}
      await config.applyToHTTPSOptions(options)
      return toCredentials(options, cluster.proxyUrl !== undefined)
    },
  }
}

/**
 * Takes the library's agent only for a proxy, because that agent keeps no connections and never drops a
 * certificate.
 */
function toCredentials(options: RequestOptions, throughProxy: boolean): KubeCredentials {
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(options.headers ?? {})) headers[name.toLowerCase()] = `${value}`
  const { ca, cert, key, servername, rejectUnauthorized, auth, agent } = options
  const tls = { ca, cert, key, servername, rejectUnauthorized, auth }
  const given = Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined))
  return { headers, tls: given, ...(throughProxy && agent ? { agent } : {}) }
}
