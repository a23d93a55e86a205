import type { RequestOptions } from 'node:https'
import { isIPv6 } from 'node:net'
import { join } from 'node:path'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'

/** The address of the API server, and the credentials for it. */
export interface KubeApiAccess {
  readonly server: URL
  /** The namespace of the context or of the pod. */
  readonly namespace: string
  /** Returns the credentials of one request. Called for each request, so that rotated ones are read again. */
  credentials(): Promise<KubeCredentials>
}

export interface KubeCredentials {
  readonly headers: Readonly<Record<string, string>>
  readonly tls: Pick<RequestOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized' | 'auth'>
  /** The agent of a proxy; left out without one. */
  readonly agent?: NonNullable<RequestOptions['agent']>
}

/** The folder in which the kubelet mounts the account of a pod. */
const serviceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount'
const maxCredentialBytes = 1024 * 1024

/**
 * Finds the API server as kubectl does: KUBECONFIG, else the pod's own account, else `~/.kube/config`.
 *
 * @throws Error that names the missing part, and never a credential
 */
export function accessFromEnvironment(env: NodeJS.ProcessEnv): Promise<KubeApiAccess> {
  const named = env['KUBECONFIG'] ?? ''
  if (named === '' && (env['KUBERNETES_SERVICE_HOST'] ?? '') !== '')
    return Promise.resolve(accessInCluster(env))
  return accessFromKubeconfig(named === '' ? join(env['HOME'] ?? '/', '.kube', 'config') : named)
}

/** Returns the account of this program's pod. The token and the CA are read for each request. */
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
 * Returns the access of a kubeconfig file, with all of its forms of credentials (certificates, tokens, exec
 * plugins). The library for them is loaded only here, because in a cluster it would only cost memory.
 *
 * @param context the context to use; the current one of the file when left out
 */
export async function accessFromKubeconfig(path: string, context?: string): Promise<KubeApiAccess> {
  const { createKubeConfig } = await import('./kube-config.ts')
  const config = createKubeConfig()
  try {
    config.loadFromFile(path)
  } catch (error) {
    // The message of a YAML error quotes the lines around it, which may contain a token.
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
 * The agent of the library keeps no connection alive and never drops a certificate, so only a proxy uses it.
 */
function toCredentials(options: RequestOptions, throughProxy: boolean): KubeCredentials {
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(options.headers ?? {})) headers[name.toLowerCase()] = `${value}`
  const { ca, cert, key, servername, rejectUnauthorized, auth, agent } = options
  const tls = { ca, cert, key, servername, rejectUnauthorized, auth }
  const given = Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined))
  return { headers, tls: given, ...(throughProxy && agent ? { agent } : {}) }
}
