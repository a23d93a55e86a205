/**
 * The part of the browser's document that the script of the pages uses. The types of TypeScript's DOM library
 * are not used, because they would declare browser globals in all files of the service.
 */
export interface PageDocument {
  querySelector(selector: string): PageElement | null
  querySelectorAll(selector: string): Iterable<PageElement>
}

export interface PageElement {
  readonly id: string
  readonly selectionStart: number | null
  value: string
  hidden: boolean
  textContent: string | null
  querySelector(selector: string): PageElement | null
  getAttribute(name: string): string | null
  setAttribute(name: string, value: string): void
  removeAttribute(name: string): void
  addEventListener(type: string, listen: (event: PageEvent) => void): void
  setSelectionRange(start: number, end: number): void
  focus(): void
}

interface PageEvent {
  readonly defaultPrevented: boolean
  /** The kind of change of an input event, such as `insertText` or `deleteContentBackward`. */
  readonly inputType?: string
  /** In a pageshow event, whether the browser restored the page from the back/forward cache. */
  readonly persisted?: boolean
  /** In a submit event, the button that was pressed. */
  readonly submitter?: PageElement | null
  preventDefault(): void
}

export interface PageWindow {
  readonly location: {
    readonly href: string
    assign(address: string): void
    replace(address: string): void
  }
  readonly performance: { getEntriesByType(type: string): readonly { readonly type?: string }[] }
  setTimeout(run: () => void, delayMs: number): number
  clearTimeout(timer: number): void
  addEventListener(type: string, listen: (event: PageEvent) => void): void
}
