import { render, screen } from '@testing-library/react'
import userEvent from '@testing-library/user-event'
import { describe, expect, it, vi } from 'vitest'
import * as saving from '@/charts/saving'
import { Drawing } from '@/parts/Drawing'
import { cleanDrawing } from '@/parts/drawing/clean'

const GOOD =
  '<svg class="chart left-8" height="40" role="img" viewBox="0 0 10 10"><title>A &lt; B</title><g class="grid"><line x1="0%" x2="100%"></line></g><text class="tick">run 0</text></svg>'

describe('a drawing', () => {
  it('keeps shapes, classes and texts', () => {
    const made = cleanDrawing(GOOD)
    expect(made?.outerHTML).toContain('<line x1="0%" x2="100%">')
    expect(made?.getAttribute('class')).toBe('chart left-8')
    expect(made?.getAttribute('viewBox')).toBe('0 0 10 10')
    expect(made?.querySelector('title')?.textContent).toBe('A < B')
  })

  it.each([
    ['a script', '<svg><script>alert(1)</script></svg>'],
    ['a handler', '<svg onload="alert(1)"><rect onclick="alert(1)"/></svg>'],
    ['HTML inside', '<svg><foreignObject><img src="x" onerror="alert(1)"></foreignObject></svg>'],
    ['a link', '<svg><a href="javascript:alert(1)"><text>go</text></a></svg>'],
    ['a style', '<svg style="background:url(http://evil)"><style>*{display:none}</style></svg>'],
    ['something fetched', '<svg><image href="http://evil/x.png"/><use href="#x"/></svg>'],
    [
      'motion',
      '<svg><animate attributeName="href" to="javascript:alert(1)"/><set attributeName="onclick" to="x"/></svg>',
    ],
    ['markup of a text', '<svg><text>&lt;img src=x onerror=alert(1)&gt;</text></svg>'],
  ])('drops %s', (_, text) => {
    const made = cleanDrawing(text)
    expect(made).not.toBeNull()
    expect(made?.querySelector('script, foreignObject, img, a, style, image, use, animate, set')).toBeNull()
    const names = [made, ...(made?.querySelectorAll('*') ?? [])].flatMap((one) =>
      [...(one?.attributes ?? [])].map((found) => found.name),
    )
    expect(names.filter((name) => name.startsWith('on') || name === 'href' || name === 'style')).toEqual([])
  })

  it('of a link keeps what the link holds', () => {
    expect(cleanDrawing('<svg><a href="#x"><text>go</text></a></svg>')?.querySelector('g text')?.textContent).toBe('go')
  })

  it.each(['', 'no picture', '<div><svg></svg></div>', '<p>text</p>'])('is none: %j', (text) => {
    expect(cleanDrawing(text)).toBeNull()
  })

  it('says where it cannot be read, and still gives its numbers', async () => {
    render(
      <Drawing
        title="Latency"
        says="How it was."
        svg="broken"
        columns={['run', 'ms']}
        rows={[
          [0, 12.5],
          [1, null],
        ]}
      />,
    )
    expect(screen.getByText(/cannot be read/)).toBeTruthy()
    await userEvent.click(screen.getByRole('button', { name: /Show the numbers/ }))
    expect(screen.getAllByRole('cell').map((one) => one.textContent)).toEqual(['0', '12.5', '1', '–'])
  })

  it('lies in a tree of its own and gives CSV', async () => {
    const save = vi.spyOn(saving, 'save').mockImplementation(() => undefined)
    const { container } = render(
      <Drawing title="Latency" says="How it was." svg={GOOD} columns={['run', 'ms']} rows={[[0, 12.5]]} />,
    )
    expect(container.querySelector('.drawing-host')?.shadowRoot?.querySelector('text')?.textContent).toBe('run 0')
    expect(container.querySelector('svg')).toBeNull()
    await userEvent.click(screen.getByRole('button', { name: 'Save Latency as CSV' }))
    expect(save).toHaveBeenCalledWith('Latency', 'csv', 'run,ms\r\n0,12.5')
  })

  it('is saved as SVG with its look written into it', async () => {
    const save = vi.spyOn(saving, 'save').mockImplementation(() => undefined)
    render(<Drawing title="Latency" says="How it was." svg={GOOD} columns={[]} rows={[]} />)
    await userEvent.click(screen.getByRole('button', { name: 'Save Latency as SVG' }))
    const address = save.mock.calls[0]?.[2] ?? ''
    expect(address.startsWith('data:image/svg+xml')).toBe(true)
    expect(decodeURIComponent(address)).toContain('run 0</text>')
    expect(decodeURIComponent(address)).not.toContain('class=')
  })
})
