import { createHash } from 'node:crypto'
import { browserScript } from './browser-script.ts'
import { icon, styles } from './styles.ts'

/** A file that pages load. Its path has the hash of its content, so it can be kept for ever. */
export interface Asset {
  /** The path below the folder of the pages. */
  readonly path: string
  readonly type: string
  readonly content: string
  /** The hash by which browsers reject a changed file (Subresource Integrity). */
  readonly integrity: string
  /** Why pages load it: the inventory has it. */
  readonly purpose: string
}

export function hashForIntegrity(content: string): string {
  return `sha384-${createHash('sha384').update(content).digest('base64')}`
}

interface Source extends Pick<Asset, 'type' | 'content' | 'purpose'> {
  readonly name: string
  readonly ending: string
}

function asset({ name, ending, type, content, purpose }: Source): Asset {
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 12)
  return {
    path: `assets/${name}-${hash}.${ending}`,
    type,
    content,
    integrity: hashForIntegrity(content),
    purpose,
  }
}

/** Everything that the pages load. */
export const assets = {
  style: asset({
    name: 'pay',
    ending: 'css',
    type: 'text/css; charset=utf-8',
    content: styles,
    purpose: 'Layout and colours.',
  }),
  script: asset({
    name: 'pay',
    ending: 'js',
    type: 'text/javascript; charset=utf-8',
    content: browserScript,
    purpose:
      'Groups the digits of the card form, checks its fields before it is sent, keeps it from being sent twice, ' +
      'and opens the shop after a payment. It sends and stores no data.',
  }),
  icon: asset({
    name: 'icon',
    ending: 'svg',
    type: 'image/svg+xml',
    content: icon,
    purpose: 'The icon of the browser tab.',
  }),
} as const satisfies Readonly<Record<string, Asset>>

/**
 * The headers of every answer. The policy allows a page to load the service's own style and script and to
 * send its forms to the service. Pages are not cached or framed, and send no referrer.
 */
export const pageHeaders = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'cache-control': 'no-store',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'x-robots-tag': 'noindex',
} as const
