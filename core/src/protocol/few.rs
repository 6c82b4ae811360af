//! An array that needs no allocation while it holds one element.

use std::ops::Deref;

/// An immutable array: one element inline, or a vector.
///
/// Almost every Produce and Fetch request on a hot path names one partition of one topic; its
/// arrays then live inside the request.
#[derive(Clone, Debug)]
pub enum Few<T> {
    /// Exactly one element.
    One([T; 1]),
    /// Any number of elements.
    Many(Vec<T>),
}

impl<T> Few<T> {
    /// An array of one element.
    #[must_use]
    pub const fn one(element: T) -> Self {
        Self::One([element])
    }

    /// Returns the elements.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T> From<Vec<T>> for Few<T> {
    fn from(mut elements: Vec<T>) -> Self {
        match elements.pop() {
            Some(last) if elements.is_empty() => Self::one(last),
            Some(last) => {
                elements.push(last);
                Self::Many(elements)
            }
            None => Self::Many(elements),
        }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self::from(elements.into_iter().collect::<Vec<T>>())
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, many) = match self {
            Self::One([one]) => (Some(one), Vec::new()),
            Self::Many(many) => (None, many),
        };
        one.into_iter().chain(many)
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.as_slice().iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_order_however_many() {
        for count in 0..4 {
            let elements: Vec<i32> = (0..count).collect();
            let few = Few::from(elements.clone());
            assert_eq!(matches!(few, Few::One(_)), count == 1);
            assert_eq!(few.as_slice(), elements);
            assert_eq!(few.into_iter().collect::<Vec<i32>>(), elements);
        }
    }
}
