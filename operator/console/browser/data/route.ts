import { signal } from '@preact/signals'

/** A page and its parameters: `#/domain?domain=checkout&rule=checkout.user`. */
interface Route {
  readonly page: string
  readonly parameters: Readonly<Record<string, string>>
}

/** The fragment of an address is not sent to a server. */
function parseRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s)
  return { page: path === '' ? 'overview' : path, parameters: Object.fromEntries(new URLSearchParams(query)) }
}

export function linkTo(page: string, parameters: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(parameters).toString()
  return `#/${page === 'overview' ? '' : page}${query === '' ? '' : `?${query}`}`
}

export const route = signal<Route>({ page: 'overview', parameters: {} })

export function followAddress(): void {
  const read = () => {
    route.value = parseRoute(location.hash)
  }
  addEventListener('hashchange', read)
  read()
}
