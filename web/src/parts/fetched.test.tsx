import { CatchBoundary } from '@tanstack/react-router'
import { render, screen } from '@testing-library/react'
import { expect, it, vi } from 'vitest'
import { fetched } from '@/parts/fetched'

const file = { default: ({ name }: { name: string }) => <p>drawn for {name}</p> }

it('comes when it is first shown, and once', async () => {
  const load = vi.fn(() => Promise.resolve(file))
  const [Drawn] = fetched(load, 'the drawing')
  expect(load).not.toHaveBeenCalled()
  render(<Drawn name="one" />)
  expect(screen.getByRole('status').textContent).toContain('the drawing')
  expect(await screen.findByText('drawn for one')).toBeTruthy()
  render(<Drawn name="two" />)
  expect(screen.getByText('drawn for two')).toBeTruthy()
  expect(load).toHaveBeenCalledTimes(1)
})

it('is shown immediately where it was fetched before', async () => {
  const [Drawn, fetch] = fetched(() => Promise.resolve(file), 'the drawing')
  fetch()
  await Promise.resolve()
  await Promise.resolve()
  render(<Drawn name="one" />)
  expect(screen.getByText('drawn for one')).toBeTruthy()
})

it('says why it did not come, and is asked for again', async () => {
  vi.spyOn(console, 'error').mockImplementation(() => {})
  const load = vi.fn().mockRejectedValueOnce(new Error('the file is gone')).mockResolvedValue(file)
  const [Drawn, fetch] = fetched<{ name: string }>(load, 'the drawing')
  fetch()
  await vi.waitFor(() => expect(load).toHaveBeenCalledTimes(1))
  load.mockRejectedValueOnce(new Error('the file is gone'))
  const { unmount } = render(
    <CatchBoundary getResetKey={() => ''} errorComponent={({ error }) => <p>{String(error)}</p>}>
      <Drawn name="one" />
    </CatchBoundary>,
  )
  expect(await screen.findByText(/the file is gone/)).toBeTruthy()
  unmount()
  render(<Drawn name="two" />)
  expect(await screen.findByText('drawn for two')).toBeTruthy()
})
