import { createHash } from 'node:crypto'
import { browserScript } from './browser-script.ts'
import { icon, styles } from './styles.ts'

/** A file that pages load. Its path has the hash of its content, so it can be kept for ever. */
export interface Asset {
  /** Below the folder of the pages. */
  readonly path: string
  readonly type: string
  readonly content: string
}

function asset(name: string, ending: string, type: string, content: string): Asset {
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 12)
  return { path: `assets/${name}-${hash}.${ending}`, type, content }
}

export const assets = {
  style: asset('pay', 'css', 'text/css; charset=utf-8', styles),
  script: asset('pay', 'js', 'text/javascript; charset=utf-8', browserScript),
  icon: asset('icon', 'svg', 'image/svg+xml', icon),
} as const satisfies Readonly<Record<string, Asset>>
