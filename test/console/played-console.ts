import { createGuardedServer } from '@tollway/chassis/net/guarded-server.ts'
import { closeHttp, listenHttp } from '@tollway/chassis/net/listen-http.ts'
import type { CallerAuthentication } from '../../operator/api/access.ts'
import { ApiError } from '../../operator/api/errors.ts'
import type { ApiSources } from '../../operator/api/sources.ts'
import { createConsole } from '../../operator/console/create-console.ts'
import { serveApi } from '../../operator/testing/serve-api.ts'
import type { Cleanup } from '../support/tollway.ts'

export const viewerToken = 'token-of-the-viewer'
export const editorToken = 'token-of-the-editor'
export const shopToken = 'token-of-the-shop'

const users = new Map([
  [viewerToken, 'viewer'],
  [editorToken, 'editor'],
  [shopToken, 'shop'],
])

/** The editor has all rights, the viewer only those that read, and the third user those in one namespace. */
const threeUsers: CallerAuthentication = {
  async authenticate({ headers }) {
    const name = users.get(headers.authorization?.replace('Bearer ', '') ?? '')
    if (name === undefined) throw new ApiError('unauthenticated', 'the token is not valid')
    return {
      name,
      async authorize({ verb, resource }, { namespace }) {
        const isChange = verb === 'update' || verb === 'patch'
        if ((name === 'viewer' && isChange) || (name === 'shop' && namespace !== 'shop'))
          throw new ApiError('forbidden', `${name} may not ${verb} ${resource}`)
      },
    }
  },
}

/** The words of an API server. */
export const conflictingField = '.spec.descriptors[key="user",value=""].rateLimit.requestsPerUnit'
const conflict =
  'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using tollway.dev/v1alpha1: ' +
  conflictingField

const version = '1'

const manifest: ApiSources['manifest'] = async ({ namespace, name }) => ({
  manifest: `apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata: {namespace: ${namespace}, name: ${name}}
spec:
  domain: ${name}
  descriptors:
    - {key: user, rateLimit: {unit: minute, requestsPerUnit: 10}}
`,
  version,
  origin: 'cluster',
})

/** A cluster in which kubectl has applied the rules. */
const appliedByKubectl: ApiSources['apply'] = async ({ force, version: read }) => {
  if (read !== undefined && read !== version)
    throw new ApiError('changed', `version: ${read} was read; expected ${version}`)
  if (!force) throw new ApiError('conflict', conflict)
  return { created: false, origin: 'cluster', version: '2' }
}

/**
 * The console over the API with played pods, or the sessions of real ones, and three users of a cluster. It
 * can be stopped for a while.
 */
export async function playConsole(t: Cleanup, sessions: ApiSources['pods'] | undefined = undefined) {
  const played = await serveApi(t, { access: threeUsers, apply: appliedByKubectl, manifest, sessions })
  const handleConsole = createConsole()
  const open = () =>
    createGuardedServer((request, response) => {
      if (!played.api.handle(request, response) && !handleConsole(request, response))
        response.writeHead(404).end()
    })
  let server = open()
  const port = await listenHttp(server, { host: '127.0.0.1', port: 0 })
  t.after(() => closeHttp(server, 0))
  return {
    ...played,
    port,
    origin: `http://127.0.0.1:${port}`,
    stop: () => closeHttp(server, 0),
    async start() {
      server = open()
      await listenHttp(server, { host: '127.0.0.1', port })
    },
  }
}
